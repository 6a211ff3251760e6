/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Veno (Fu and Liew, IEEE JSAC 21(2), 2003, section II). N comes from each ACK's own RTT, as in Linux.
 *
 * Scales: N in 1/`resolution` segment, rounded up; exact at any window. `random_loss` in 1/2^24, plus half a unit, so
 * that 0.1 of 10 segments, one segment, is not rounded down to 0. If `random_loss` has d decimals, the window after a
 * loss is exact up to 2^24 / 10^d segments.
 */
#define PARAMETERS(P) \
	P(beta, 1) P(random_loss, 16777216) P(resolution, 1) P(min_samples, 1) P(forget_when_idle, 1)
#include "samples.h"

struct state {
	struct common common;
	struct samples samples; /* `rtt` since the last increase */
	u64 backlog; /* N in parts of a segment */
	u32 count; /* segments acknowledged since the last increase */
	u8 increase; /* the next round on a congested path may grow */
};

INLINE void begin(struct state *s, struct flow *f)
{
	samples_init(&s->samples, f);
	s->backlog = 0;
	s->count = 0;
	s->increase = 1;
}

INLINE void sample(struct state *s, struct flow *f)
{
	samples_take(&s->samples, f);
}

INLINE bool congested(const struct state *s)
{
	return s->backlog >= (u64)parameters.beta * parameters.resolution;
}

/* N = W - W BaseRTT / RTT (section II); without an RTT, the whole window. */
INLINE void measure(struct state *s, const struct flow *f)
{
	u64 parts = (u64)most(f->cwnd, 1) * parameters.resolution;
	u32 base = s->samples.base, rtt = s->samples.rtt;

	s->backlog = rtt == NO_RTT && base != NO_RTT ? parts : parts - times_over(parts, base, rtt);
}

/* Grows by one segment per round if N is below beta, else every other round (section II, additive increase). */
INLINE void grow(struct state *s, struct flow *f)
{
	u32 left = f->segments;

	if (in_slow_start(f))
		left = slow_start(f, left);
	if (!left) {
	} else if (!congested(s)) {
		additive_increase(f, &s->count, f->cwnd, left);
	} else if (s->count < f->cwnd) {
		s->count += left;
	} else {
		f->cwnd += s->increase;
		s->increase = !s->increase;
		s->count = 0;
	}
	f->cwnd = most(f->cwnd, 2);
}

INLINE void avoid(struct state *s, struct flow *f)
{
	if (!f->may_grow || !f->segments)
		return;
	if (s->samples.govern && s->samples.count >= parameters.min_samples) {
		measure(s, f);
		grow(s, f);
	} else {
		reno(f, &s->count);
	}
	if (s->samples.govern)
		s->samples.rtt = NO_RTT;
}

/* Reduces the window to 1/2 on a congested path, else to 4/5 (section II, multiplicative decrease). */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	u64 part = 2 * (u64)parameters.random_loss + 1; /* 1/2^25 */
	u32 left = congested(s) ? f->cwnd / 2 : f->cwnd * part >> 25;

	s->count = 0;
	return most(left, 2);
}

INLINE void changed(struct state *s, struct flow *f)
{
	samples_changed(&s->samples, f);
	if (f->state == TCP_CA_Loss)
		s->count = 0; /* for a time-out within an episode the kernel does not call ssthresh */
}

INLINE void started(struct state *s, struct flow *f)
{
	(void)f;
	if (!parameters.forget_when_idle)
		return;
	samples_restart(&s->samples);
	s->increase = 1;
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed, .started = started,
};

#include "hooks.h"
