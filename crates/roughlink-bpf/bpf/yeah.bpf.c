/* SPDX-License-Identifier: GPL-2.0 */
/*
 * YeAH (Baiocchi, Castellani, Vacirca, PFLDnet 2007, section 2).
 *
 * Segments and microseconds are whole numbers. `a` is in 1/2^31. This makes 1 / a exact up to 46,000 segments. Above,
 * its relative error is at most 1 / (2^32 a), which only matters for windows above 1 / a.
 */
#define PARAMETERS(P)                                                                     \
	P(alpha, 1) P(gamma, 1) P(delta, 1) P(epsilon, 1) P(phi, 1) P(rho, 1) P(zeta, 1)  \
	P(a, 2147483648)
#include "algorithm.h"

#define NO_RTT (~0u)

struct state {
	struct common common;
	u32 base, round_rtt; /* smallest of the connection and of the round, us */
	u32 samples; /* of the round */
	u32 round_end;
	u32 queue; /* segments in the last round */
	u32 slow_rounds; /* in a row */
	u32 fast_rounds; /* since the last loss */
	u32 reno_window; /* of a competing Reno flow, estimated */
	u32 count; /* segments acknowledged since the last increase */
	u8 in_episode;
};

INLINE void new_round(struct state *s, const struct flow *f)
{
	s->round_end = f->snd_nxt;
	s->samples = 0;
	s->round_rtt = NO_RTT;
}

INLINE void begin(struct state *s, struct flow *f)
{
	s->base = NO_RTT;
	s->queue = s->slow_rounds = s->fast_rounds = s->count = 0;
	s->reno_window = 2;
	s->in_episode = 0;
	new_round(s, f);
}

INLINE void sample(struct state *s, struct flow *f)
{
	u32 rtt = f->rtt_us + 1; /* never 0 */

	if (f->rtt_us < 0)
		return;
	s->base = least(s->base, rtt);
	s->round_rtt = least(s->round_rtt, rtt);
	s->samples++;
}

/* Grows as Scalable TCP in fast mode, by one segment per 1 / a acknowledged ones, and as Reno in slow mode. */
INLINE void grow(struct state *s, struct flow *f)
{
	u32 left = f->segments, w;

	if (in_slow_start(f))
		left = slow_start(f, left);
	if (!left)
		return;
	w = f->cwnd;
	if (!s->slow_rounds && parameters.a)
		w = least(w, (2147483648u + parameters.a / 2) / parameters.a);
	additive_increase(f, &s->count, w, left);
}

/* Section 2: the queue of the round, (RTT - RTTbase) w / RTT, and the mode that follows from it. */
INLINE void judge(struct state *s, struct flow *f)
{
	u32 w = most(f->cwnd, 1);
	u32 waited = s->round_rtt > s->base ? s->round_rtt - s->base : 0;
	u32 queue = (u64)w * waited / s->round_rtt;
	u32 tolerated = parameters.phi ? s->base / parameters.phi : 0;

	s->queue = queue;
	if (queue <= parameters.alpha && waited <= tolerated) {
		if (++s->fast_rounds > parameters.zeta) {
			s->reno_window = 2;
			s->fast_rounds = 0;
		}
		s->slow_rounds = 0;
		return;
	}
	if (queue > parameters.alpha && w > s->reno_window) {
		/* Precautionary decongestion: by queue / gamma, at most w / 2^epsilon, not below Reno's window. */
		w -= least(queue / parameters.gamma, (u64)w >> parameters.epsilon);
		w = most(w, s->reno_window);
		f->cwnd = f->ssthresh = w;
	}
	s->reno_window = s->reno_window <= 2 ? most(w / 2, 2) : s->reno_window + 1;
	if (s->slow_rounds != ~0u)
		s->slow_rounds++;
}

INLINE void avoid(struct state *s, struct flow *f)
{
	if (!f->may_grow)
		return;
	grow(s, f);
	if (after(f->snd_una, s->round_end)) {
		if (s->samples > 2)
			judge(s, f);
		new_round(s, f);
	}
}

/*
 * Reduces the window by the queue, at least by w / 2^delta and at most by half; by half beside Reno flows (section 2).
 */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	u32 w = f->cwnd;
	u32 half = most(w / 2, 2), less = half;

	if (s->slow_rounds < parameters.rho)
		less = most(least(s->queue, half), (u64)w >> parameters.delta);
	s->fast_rounds = 0;
	s->reno_window = most(s->reno_window / 2, 2);
	s->count = 0;
	return w > less + 2 ? w - less : 2;
}

/* on_recovered of Rust. CA_EVENT_COMPLETE_CWR would miss the end of the Loss state. */
INLINE void changed(struct state *s, struct flow *f)
{
	bool in_episode = f->state >= TCP_CA_CWR;

	if (s->in_episode && !in_episode)
		new_round(s, f);
	s->in_episode = in_episode;
	if (f->state == TCP_CA_Loss)
		s->count = 0; /* for a time-out within an episode the kernel does not call ssthresh */
}

INLINE void started(struct state *s, struct flow *f)
{
	s->base = NO_RTT;
	new_round(s, f);
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed, .started = started,
};

#include "hooks.h"
