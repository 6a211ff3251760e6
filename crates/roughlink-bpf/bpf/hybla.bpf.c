/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP Hybla (Caini, Firrincieli, International Journal of Satellite Communications and Networking 22, 2004, section 3).
 * With rho = max(RTT / RTT0, 1), an ACK adds 2^rho - 1 segments in slow start and rho^2 / cwnd after it, regardless of
 * the bytes acknowledged. RTT is the smallest smoothed one.
 *
 * Scales: rho in 1/8, rounded down, so up to 1/8 too small; increments in 1/128 segment, rounded down. Smaller
 * increments become one segment per window, as in NewReno.
 */
#define PARAMETERS(P) P(rrtt_ms, 1000) P(start_at_rho, 1) P(max_window, 1)
#include "algorithm.h"

struct state {
	struct common common;
	u32 min_srtt; /* us; 0 = none yet */
	u32 rho8; /* rho in eighths */
	u32 slow_start; /* 2^rho - 1 in 128ths */
	u32 parts; /* fraction of a segment not yet added to the window, 128ths */
	u32 unrewarded; /* ACKs whose increment was less than a 128th */
	u32 count; /* of NewReno's growth */
	u8 started; /* the RTT of the handshake is known */
};

/*
 * 128 * 2^(k/8), rounded down, k = 0 .. 7. The section is explicit because libbpf does not support clang's section for
 * 8-byte constants.
 */
static const u8 power[8] SEC(".rodata") = { 128, 139, 152, 165, 181, 197, 215, 234 };

/*
 * Sets rho = max(RTT / RTT0, 1) and its dependents. Above rho = 16, slow start adds 65535 segments per ACK, as for 16.
 */
INLINE void normalize(struct state *s, u32 srtt_us)
{
	u64 rho8 = srtt_us * 8ull / parameters.rrtt_ms; /* us, by its scale */

	s->min_srtt = srtt_us;
	s->rho8 = rho8 > 8 ? rho8 : 8;
	s->slow_start = ((u32)power[s->rho8 % 8] << least(s->rho8 / 8, 16)) - 128;
}

/* Starts with a window of rho segments if the handshake gave an RTT. */
INLINE void start(struct state *s, struct flow *f)
{
	if (!f->srtt_us)
		return;
	s->started = 1;
	normalize(s, f->srtt_us);
	if (parameters.start_at_rho)
		f->cwnd = s->rho8 / 8;
}

INLINE void begin(struct state *s, struct flow *f)
{
	s->rho8 = 8;
	s->slow_start = 128;
	s->min_srtt = s->parts = s->unrewarded = s->count = s->started = 0;
	start(s, f);
}

INLINE void started(struct state *s, struct flow *f)
{
	if (!s->started)
		start(s, f);
	s->started = 1;
}

/* Follows the smallest smoothed RTT. */
INLINE void sample(struct state *s, struct flow *f)
{
	if (f->srtt_us && (!s->min_srtt || f->srtt_us < s->min_srtt))
		normalize(s, f->srtt_us);
}

INLINE void grow(struct state *s, struct flow *f)
{
	bool slow = in_slow_start(f);
	u64 w = most(f->cwnd, 1);
	u64 increment; /* 128ths */
	u64 cwnd;

	if (slow) {
		increment = s->slow_start; /* 2^rho - 1 */
	} else {
		increment = 2ull * s->rho8 * s->rho8 / w; /* rho^2 / cwnd: 128 (rho8 / 8)^2 / w */
		if (increment < 128)
			s->unrewarded++;
	}
	cwnd = f->cwnd + increment / 128;
	s->parts += increment % 128;
	if (s->parts >= 128) {
		cwnd++;
		s->parts -= 128;
		s->unrewarded = 0;
	}
	if (!increment && s->unrewarded >= w) {
		cwnd++;
		s->unrewarded = 0;
	}
	if (slow && cwnd > f->ssthresh)
		cwnd = f->ssthresh;
	f->cwnd = cwnd > parameters.max_window ? parameters.max_window : cwnd;
}

/* Grows by section 3 in the Open state, else as NewReno. */
INLINE void avoid(struct state *s, struct flow *f)
{
	if (!f->may_grow)
		return;
	if (f->state == TCP_CA_Open) {
		grow(s, f);
	} else {
		reno(f, &s->count);
		f->cwnd = least(f->cwnd, parameters.max_window);
	}
}

/* Halves the window, in whole segments. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	s->count = 0;
	s->unrewarded = 0;
	return most(f->cwnd / 2, 2);
}

/* Handles a time-out within an episode, for which the kernel does not call ssthresh. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state != TCP_CA_Loss)
		return;
	s->count = 0;
	s->unrewarded = 0;
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed, .started = started,
};

#include "hooks.h"
