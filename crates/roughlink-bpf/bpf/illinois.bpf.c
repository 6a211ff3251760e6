/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP-Illinois (Liu, Basar, Srikant, VALUETOOLS 2006; figures 9 and 10 of the V2G paper). The parameters of figure 10
 * make it Illinois AA.
 *
 * Scales: alpha in 1/65536 segment, beta and d1..d3 in 1/65536. An alpha of 0.3 is exact to 3e-5. RTTs are in us. Their
 * mean and the delays are in 1/16 us, since a queue at 10 Gbit/s is a few us long. Nothing overflows up to 120 s, the
 * longest time-out of Linux.
 */
#define PARAMETERS(P)                                                                               \
	P(alpha_max, 65536) P(alpha_min, 65536) P(alpha_base, 65536)                                \
	P(beta_min, 65536) P(beta_max, 65536) P(beta_base, 65536)                                   \
	P(d1, 65536) P(d2, 65536) P(d3, 65536)                                                      \
	P(win_thresh, 1) P(theta, 1) P(rtt_limit_ms, 1000)
#include "algorithm.h"

#define ONE 65536

struct state {
	struct common common;
	u32 alpha, beta;
	u32 base_rtt, max_rtt; /* us; 0 = none yet */
	u64 sum_rtt; /* of this round */
	u32 samples;
	u32 round_end;
	u32 low; /* rounds in the low zone */
	u32 credit; /* segments acknowledged since the last increase */
	u8 above; /* the delay has left the low zone since alpha was at its maximum */
};

INLINE void new_round(struct state *s, const struct flow *f)
{
	s->round_end = f->snd_nxt;
	s->samples = 0;
	s->sum_rtt = 0;
}

INLINE void begin(struct state *s, struct flow *f)
{
	s->alpha = parameters.alpha_max;
	s->beta = parameters.beta_base;
	s->base_rtt = s->max_rtt = 0;
	s->low = s->credit = 0;
	s->above = 0;
	new_round(s, f);
}

INLINE void sample(struct state *s, struct flow *f)
{
	u32 limit = parameters.rtt_limit_ms; /* us */
	u32 rtt;

	if (f->rtt_us <= 0)
		return;
	rtt = f->rtt_us;
	if (limit && rtt > limit)
		rtt = limit;
	if (!s->base_rtt || rtt < s->base_rtt)
		s->base_rtt = rtt;
	if (rtt > s->max_rtt)
		s->max_rtt = rtt;
	s->sum_rtt += rtt;
	s->samples++;
}

/*
 * Figure 9: kappa1 / (kappa2 + da) above d1, continuous at d1. With x = da - d1 dm and m = dm - d1 dm this is
 * m alpha_max / (m + x (alpha_max - alpha_min) / alpha_min).
 */
INLINE u32 alpha(u64 da, u64 dm)
{
	u64 top = parameters.alpha_max, low = parameters.alpha_min;
	u64 d1 = parameters.d1 * dm / ONE;
	u64 m, divisor;

	if (da <= d1 || top <= low || !low)
		return top;
	m = dm - d1;
	divisor = m + (da - d1) * (top - low) / low;
	return divisor ? m * top / divisor : top;
}

/* Figure 9: kappa3 + kappa4 da between d2 and d3. */
INLINE u32 beta(u64 da, u64 dm)
{
	u64 d2 = parameters.d2 * dm / ONE, d3 = parameters.d3 * dm / ONE;

	if (da <= d2)
		return parameters.beta_min;
	if (da >= d3)
		return parameters.beta_max;
	return (parameters.beta_min * (d3 - da) + parameters.beta_max * (da - d2)) / (d3 - d2);
}

/* Computes alpha and beta from the delays of the last round. */
INLINE void adapt(struct state *s, const struct flow *f)
{
	u64 da, dm;

	if (f->cwnd < parameters.win_thresh) {
		s->alpha = parameters.alpha_base;
		s->beta = parameters.beta_base;
		return;
	}
	if (!s->samples)
		return;
	da = s->sum_rtt * 16 / s->samples - s->base_rtt * 16ull; /* 1/16 us */
	dm = (s->max_rtt - s->base_rtt) * 16ull;
	if (da * ONE > parameters.d1 * dm) {
		s->above = 1;
		s->alpha = alpha(da, dm);
	} else if (!s->above) {
		s->alpha = parameters.alpha_max;
	} else if (++s->low >= parameters.theta) {
		/* Return to the maximum after `theta` rounds of low delay. */
		s->low = 0;
		s->above = 0;
		s->alpha = parameters.alpha_max;
	}
	s->beta = beta(da, dm);
}

/* W <- W + alpha / W (V2G equation 1), for each segment acknowledged. */
INLINE void avoid(struct state *s, struct flow *f)
{
	u64 earned;

	if (after(f->snd_una, s->round_end)) {
		adapt(s, f);
		new_round(s, f);
	}
	if (!f->may_grow)
		return;
	if (in_slow_start(f)) {
		slow_start(f, f->segments);
		return;
	}
	s->credit += f->segments;
	earned = (u64)s->credit * s->alpha / ONE;
	if (earned >= f->cwnd) {
		f->cwnd += earned / most(f->cwnd, 1);
		s->credit = 0;
	}
}

/* W <- W - beta W (V2G equation 2), at least two segments. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	u32 less = (u64)f->cwnd * s->beta / ONE;

	s->credit = 0;
	return most(f->cwnd - least(less, f->cwnd), 2);
}

/* Forgets the delays after a time-out (V2G equation 3 sets the window to one segment). */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state != TCP_CA_Loss)
		return;
	s->alpha = parameters.alpha_base;
	s->beta = parameters.beta_base;
	s->low = s->credit = 0;
	s->above = 0;
	new_round(s, f);
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed,
};

#include "hooks.h"
