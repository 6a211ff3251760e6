/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scalable TCP (Kelly, CCR 33(2), 2003, section 3): a segment acknowledged adds `a` of a segment, a loss takes away `b`
 * of the window.
 *
 * Scales: a and b in 2^-31. 1 / a is a whole number of segments, as in the Rust algorithm; for a = 10^-4 it is off by less
 * than 0.03 before it is rounded. What a loss takes away of a window of w segments is off by less than w 2^-31 before it is
 * rounded down.
 */
#define PARAMETERS(P) P(a, 2147483648) P(b, 2147483648)
#include "algorithm.h"

#define ONE (1ull << 31)

struct state {
	struct common common;
	u32 count; /* segments acknowledged since the last increase */
};

/* How many segments acknowledged add one: 1 / a, rounded; an `a` below 2^-32 never does. */
INLINE u32 per_increase(void)
{
	u64 a = parameters.a;

	return a ? (ONE + a / 2) / a : ~0u;
}

/* cwnd = cwnd + a; below 1 / a segments that would be less than a segment per window, and it is that. */
INLINE void avoid(struct state *s, struct flow *f)
{
	u32 left = f->segments;

	if (!f->may_grow)
		return;
	if (in_slow_start(f))
		left = slow_start(f, left);
	if (left)
		additive_increase(f, &s->count, least(f->cwnd, per_increase()), left);
}

/* cwnd = cwnd - b cwnd, at least two segments. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	u32 less = (f->cwnd * (u64)parameters.b + f->cwnd / 2) / ONE; /* the half makes up for the rounding of b */

	s->count = 0;
	return most(f->cwnd - less, 2);
}

/* A time-out within an episode: ssthresh is not asked for. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss)
		s->count = 0;
}

static const struct algorithm algorithm = { .avoid = avoid, .ssthresh = ssthresh, .changed = changed };

#include "hooks.h"
