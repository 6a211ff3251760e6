/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AVOCA (AVOCA paper, sections I and IV) over NewReno: no new data leaves outside coverage, and NewReno restarts when
 * coverage begins. `roughlink cc coverage` writes the coverage: 0 = none; a change to another value restarts NewReno.
 * Whole segments; exact.
 *
 * Differences from simulation: outside coverage the kernel's retransmission timer keeps running, with back-off and one
 * segment per time-out, because no program can stop it. The start of coverage does not reset the timer, but new data
 * then leaves at once, and its ACK starts loss recovery.
 */
#define PARAMETERS(P)
#include "algorithm.h"

volatile u32 coverage SEC(".data.coverage") = 1;

struct state {
	struct common common;
	u32 count; /* segments acknowledged since the last increase */
	u32 initial; /* window of a new connection */
	u32 coverage; /* last value read */
};

/* Returns true in transmit mode. Entering it resets the window to its initial value (section IV). */
INLINE bool transmits(struct state *s, struct flow *f)
{
	u32 now = coverage;

	if (now && now != s->coverage) {
		s->count = 0;
		f->cwnd = s->initial;
		f->ssthresh = ~0u;
	}
	s->coverage = now;
	if (!now)
		f->cwnd = 1; /* the smallest window that the kernel allows */
	return now;
}

INLINE void begin(struct state *s, struct flow *f)
{
	s->count = 0;
	s->initial = 10; /* RFC 6928; not f->cwnd, because the connection may have used the algorithm before */
	/* Let a new connection keep the window from the route or an earlier connection. */
	s->coverage = f->in_flight || f->cwnd < s->initial ? 0 : coverage;
	transmits(s, f);
}

INLINE void avoid(struct state *s, struct flow *f)
{
	if (transmits(s, f) && f->may_grow)
		reno(f, &s->count);
}

/* RFC 5681 equation 4; outside coverage every parameter keeps its value (section I). */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	if (!coverage)
		return f->ssthresh;
	s->count = 0;
	return most(f->cwnd / 2, 2);
}

INLINE void changed(struct state *s, struct flow *f)
{
	transmits(s, f);
}

static const struct algorithm algorithm = { .begin = begin, .avoid = avoid, .ssthresh = ssthresh, .changed = changed };

#include "hooks.h"

/* --- Applying a change of coverage to all connections with the algorithm --- */

#define IPPROTO_TCP 6
#define TCP_NODELAY 1
#define TCP_CONGESTION 13

static long (*const bpf_setsockopt)(void *sk, int level, int name, void *value, int len) = (void *)49;
static long (*const bpf_getsockopt)(void *sk, int level, int name, void *value, int len) = (void *)57;

/*
 * Iterator that makes each connection of the reader's namespace read the coverage. The kernel calls an algorithm only
 * at events of the connection; switching to another algorithm and back is such an event. Setting TCP_NODELAY makes TCP
 * send pending data; the option is then restored.
 */
SEC("iter/tcp")
int look_again(struct bpf_iter__tcp *ctx)
{
	char name[16], other[16] = "reno";
	int one = 1, nodelay = 0;
	struct tcp_sock *tp = ours(ctx->sk_common);
	struct state *s = tp ? state_of((void *)tp) : (void *)0;

	if (!s || s->coverage == coverage) /* a second notice does not restart a connection */
		return 0;
	for (int i = 0; i < 16; i++)
		name[i] = own_name[i];
	bpf_getsockopt(tp, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay);
	bpf_setsockopt(tp, IPPROTO_TCP, TCP_CONGESTION, other, sizeof other);
	bpf_setsockopt(tp, IPPROTO_TCP, TCP_CONGESTION, name, sizeof name);
	bpf_setsockopt(tp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (!nodelay)
		bpf_setsockopt(tp, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay);
	return 0;
}
