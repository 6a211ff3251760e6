/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BIC (Xu, Harfoush, Rhee, INFOCOM 2004, section 3): a binary search for the window of the last loss, in steps of at
 * most `max_increment` segments per RTT (Smax). Beyond that window, growth accelerates slowly ("max probing"). Up to
 * `low_window` segments it is NewReno.
 *
 * Scales: beta in 1/1024, as in the Rust algorithm; the mean number of segments per ACK in 1/16; all else in segments.
 */
#define PARAMETERS(P)                                                                            \
	P(beta, 1024) P(max_increment, 1) P(low_window, 1) P(search, 1) P(smooth_part, 1)        \
	P(fast_convergence, 1) P(first_count, 1)
#include "algorithm.h"

#define ONE 1024u
/* Growth is recomputed when the window changes and after 1/32 s, in whole ms like Linux's clock. */
#define RENEWAL_US 31000

struct state {
	struct common common;
	u32 last_max; /* window of the last loss; 0 = none yet */
	u32 per_increase; /* acknowledged segments per segment of growth, as of `renewed_window` and `renewed_us` */
	u32 renewed_window; /* 0 = not yet */
	u64 renewed_us;
	u32 per_ack16; /* mean number of segments that an ACK acknowledges, 16ths */
	u32 count; /* segments acknowledged since the last increase */
};

INLINE void begin(struct state *s, struct flow *f)
{
	(void)f;
	s->last_max = 0;
	s->renewed_window = 0;
	s->per_ack16 = 2 * 16;
	s->count = 0;
}

/* Updates the mean from ACKs that arrive in the Open state; whole 16ths. */
INLINE void sample(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Open)
		s->per_ack16 += (f->acked + f->mss - 1) / most(f->mss, 1) - s->per_ack16 / 16;
}

/* Acknowledged segments per segment of growth: the window over its increase per RTT. */
INLINE u64 search_count(const struct state *s, u64 w)
{
	u64 max = s->last_max, search = parameters.search, smax = parameters.max_increment;
	u64 smooth = w * parameters.smooth_part / search; /* grow by `search` segments within `smooth_part` RTTs */
	u64 distance;

	if (w < max) {
		distance = (max - w) / search;
		if (distance > smax)
			return w / smax; /* additive increase */
		if (distance <= 1)
			return smooth;
		return w / distance; /* binary search: jump 1 / `search` of the distance */
	}
	if (w < max + search)
		return smooth;
	if (w < max + smax * (search - 1))
		return w * (search - 1) / (w - max); /* max probing */
	return w / smax;
}

INLINE void renew(struct state *s, const struct flow *f)
{
	u64 w = most(f->cwnd, 1), count;

	if (s->renewed_window == w && f->now_us - s->renewed_us <= RENEWAL_US)
		return;
	s->renewed_window = w;
	s->renewed_us = f->now_us;
	if (w <= parameters.low_window) {
		s->per_increase = w;
		return;
	}
	count = search_count(s, w);
	if (!s->last_max && count > parameters.first_count)
		count = parameters.first_count;
	/* `count` is in ACKs. From 2^32 - 1 on the window practically never grows. */
	if (count > ~0u)
		count = ~0u;
	count = count * 16 / most(s->per_ack16, 1);
	s->per_increase = count > ~0u ? ~0u : most(count, 1);
}

INLINE void avoid(struct state *s, struct flow *f)
{
	u32 left = f->segments;

	if (!f->may_grow)
		return;
	if (in_slow_start(f))
		left = slow_start(f, left);
	if (!left)
		return;
	renew(s, f);
	additive_increase(f, &s->count, s->per_increase, left);
}

/*
 * Multiplies the window by beta. The previous window becomes the next maximum. With fast convergence, a window below
 * the last maximum sets the next one to (1 + beta) / 2 of itself, which leaves bandwidth to other flows.
 */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	u64 w = most(f->cwnd, 1);
	u32 beta = parameters.beta;

	s->count = 0;
	s->last_max = parameters.fast_convergence && w < s->last_max ? w * (ONE + beta) / (2 * ONE) : w;
	return most(w <= parameters.low_window ? w / 2 : w * beta / ONE, 2);
}

/* Discards all state after a time-out. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss)
		begin(s, f);
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed,
};

#include "hooks.h"
