/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Vegas (Brakmo, O'Malley, Peterson, SIGCOMM 1994, sections 3.2 and 3.3), as in Linux. The RTT of a round is its
 * smallest sample, slow start doubles the window every round, and a loss halves it. Outside the Open state, the
 * algorithm is NewReno.
 *
 * Segments and microseconds are whole numbers; products have 64 bits. A backlog is rounded down by less than a segment.
 */
#define PARAMETERS(P) P(alpha, 1) P(beta, 1) P(gamma, 1) P(min_samples, 1) P(forget_when_idle, 1)
#include "samples.h"

struct state {
	struct common common;
	struct samples samples; /* `rtt` and `count` of this round */
	u32 round_end;
	u32 count; /* segments acknowledged since the last increase */
};

/* Begins a round, which ends when an ACK exceeds the data sent so far. */
INLINE void new_round(struct state *s, const struct flow *f)
{
	samples_begin(&s->samples);
	s->samples.count = 0;
	s->round_end = f->snd_nxt;
}

INLINE void begin(struct state *s, struct flow *f)
{
	samples_init(&s->samples, f);
	s->round_end = f->snd_nxt;
	s->count = 0;
}

INLINE void sample(struct state *s, struct flow *f)
{
	samples_take(&s->samples, f);
}

/*
 * Section 3.2: Expected = W / BaseRTT, Actual = W / RTT. (Expected - Actual) RTT = W (RTT - BaseRTT) / BaseRTT segments
 * wait in the network (the paper multiplies by BaseRTT instead); W BaseRTT / RTT would leave none waiting.
 */
INLINE void adjust(struct state *s, struct flow *f)
{
	u64 w = most(f->cwnd, 1);
	u32 base = s->samples.base, rtt = s->samples.rtt;
	u64 backlog = w * (rtt - base) / base;

	if (in_slow_start(f)) {
		if (backlog > parameters.gamma) {
			/* Section 3.3: slow start ends with the achieved window; add 1 for truncation. */
			f->cwnd = least(w, w * base / rtt + 1);
			f->ssthresh = least(f->ssthresh, f->cwnd);
		} else {
			slow_start(f, f->segments);
		}
	} else if (backlog > parameters.beta) {
		f->cwnd = w - 1;
		f->ssthresh = least(f->ssthresh, f->cwnd);
	} else if (backlog < parameters.alpha) {
		f->cwnd = w + 1;
	}
	f->cwnd = most(f->cwnd, 2);
	f->ssthresh = most(f->ssthresh, f->cwnd / 2 + f->cwnd / 4);
}

INLINE void avoid(struct state *s, struct flow *f)
{
	if (!f->segments)
		return;
	if (!s->samples.govern) {
		if (f->may_grow)
			reno(f, &s->count);
	} else if (after(f->snd_una, s->round_end)) {
		if (s->samples.count >= parameters.min_samples)
			adjust(s, f);
		else if (f->may_grow)
			reno(f, &s->count); /* too few samples: all may be from delayed ACKs */
		new_round(s, f);
	} else if (in_slow_start(f)) {
		slow_start(f, f->segments);
	}
}

INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	s->count = 0;
	return most(f->cwnd / 2, 2);
}

INLINE void changed(struct state *s, struct flow *f)
{
	if (samples_changed(&s->samples, f))
		new_round(s, f);
	if (f->state == TCP_CA_Loss)
		s->count = 0; /* for a time-out within an episode the kernel does not call ssthresh */
}

INLINE void started(struct state *s, struct flow *f)
{
	if (!parameters.forget_when_idle)
		return;
	samples_restart(&s->samples);
	new_round(s, f);
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed, .started = started,
};

#include "hooks.h"
