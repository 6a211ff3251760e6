/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scalable TCP (Kelly, CCR 33(2), 2003, section 3): each acknowledged segment adds `a` segments, and a loss reduces the
 * window by the fraction `b`.
 *
 * Scales: a and b in 2^-31. 1 / a is a whole number of segments, as in the Rust algorithm. For a = 10^-4 its error
 * before rounding is below 0.03. The error of a reduction of w segments, before rounding down, is below w 2^-31.
 */
#define PARAMETERS(P) P(a, 2147483648) P(b, 2147483648)
#include "algorithm.h"

#define ONE (1ull << 31)

struct state {
	struct common common;
	u32 count; /* segments acknowledged since the last increase */
};

/* Acknowledged segments per segment of growth: 1 / a, rounded. With `a` below 2^-32 the window never grows. */
INLINE u32 per_increase(void)
{
	u64 a = parameters.a;

	return a ? (ONE + a / 2) / a : ~0u;
}

/* cwnd = cwnd + a. A window below 1 / a segments grows by one segment per window, as `a` would give less. */
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

/* Handles a time-out within an episode, for which the kernel does not call ssthresh. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss)
		s->count = 0;
}

static const struct algorithm algorithm = { .avoid = avoid, .ssthresh = ssthresh, .changed = changed };

#include "hooks.h"
