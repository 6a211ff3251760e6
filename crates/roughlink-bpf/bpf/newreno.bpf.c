/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NewReno (RFC 5681, RFC 6582). With `min_ssthresh` = 10 it is NewReno SC of the V2G paper (Algorithm 1; section 4.2:
 * the bound holds "throughout the entire TCP connection lifetime"). Whole segments; exact.
 */
#define PARAMETERS(P) P(min_ssthresh, 1)
#include "algorithm.h"

struct state {
	struct common common;
	u32 count; /* segments acknowledged since the last increase */
};

INLINE void avoid(struct state *s, struct flow *f)
{
	if (f->may_grow)
		reno(f, &s->count);
}

/* ssthresh = max(cwnd / 2, min_ssthresh): RFC 5681 equation 4 with cwnd, as in Linux; V2G Algorithm 1. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	s->count = 0;
	return most(f->cwnd / 2, parameters.min_ssthresh);
}

/* Handles a time-out within an episode, for which the kernel does not call ssthresh. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss)
		s->count = 0;
}

static const struct algorithm algorithm = { .avoid = avoid, .ssthresh = ssthresh, .changed = changed };

#include "hooks.h"
