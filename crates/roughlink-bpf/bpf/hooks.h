/* SPDX-License-Identifier: GPL-2.0 */
/* Programs of an algorithm that has defined `struct state` and `algorithm`. */
#include "algorithm.h"

#ifdef STORED
/* State of each connection, which the kernel frees with the socket. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_SK_STORAGE);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	int *key;
	struct state *value;
} states SEC(".maps");

INLINE void *stored(struct sock *sk, u64 flags)
{
	return bpf_sk_storage_get(&states, sk, (void *)0, flags);
}
#else
_Static_assert(sizeof(struct state) <= 104, "the kernel keeps 104 bytes per connection");
#define stored(sk, flags) ((void *)COMMON(sk))
#endif

char _license[] SEC("license") = "GPL";

/* Returns the state of an established connection, else NULL. */
INLINE struct state *state_of(struct sock *sk)
{
	return COMMON(sk)->connection ? stored(sk, 0) : (void *)0;
}

#ifdef PACED
#define SK_PACING_NEEDED 1

/* Sets the pacing rate, at most SO_MAX_PACING_RATE. Without fq, TCP's own timer paces. */
INLINE void pace(struct sock *sk, const struct flow *f)
{
	u64 rate = f->pacing_rate;

	if (rate > sk->sk_max_pacing_rate)
		rate = sk->sk_max_pacing_rate;
	if (!sk->sk_pacing_status)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (rate != sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

/* Window after an undone reduction: `control` alone sets it. */
#define undone_window(f) ((f)->cwnd)
#else
#define pace(sk, f)
#define undone_window(f) most((f)->cwnd, (f)->prior_cwnd)
#endif

#define INFINITE 0x7fffffff /* TCP_INFINITE_SSTHRESH */

/*
 * Makes up for hooks that Linux 6.18 skipped. A few times in 10,000, when RACK's timer begins a recovery (RFC 8985
 * section 6.3), the kernel runs neither `ssthresh` nor `set_state`. The threshold is then uninitialized, and so large
 * that the connection fills the peer's window. At the next ACK, the state differs from the argument of the last
 * `set_state`. This function then runs the skipped hooks before the kernel computes a window from the threshold.
 */
INLINE void caught_up(struct sock *sk, struct state *s, struct flow *f)
{
	struct tcp_sock *tp = (void *)sk;
	struct common *c = COMMON(sk);
	u32 cwnd = f->cwnd, want;

	if (f->state == c->state)
		return;
	c->state = f->state;
	if (f->state < TCP_CA_CWR)
		return;
	__sync_fetch_and_add(&counters.not_asked, 1);
	__sync_fetch_and_add(&counters.congestions, 1);
	f->cwnd = tp->prior_cwnd; /* before the episode */
	note(f, CONGESTION, 1);
	want = least(algorithm.ssthresh(s, f), INFINITE);
	/* A window larger than before the episode is invalid: start as the kernel does after a time-out. */
	f->cwnd = cwnd > tp->prior_cwnd ? f->in_flight + 1 : cwnd;
	f->ssthresh = want == INFINITE ? ~0u : want;
	note(f, STATE, 1);
	CALL(changed, s, f);
	write_back(sk, f);
}

/* Fills in the peer address. */
INLINE void address(struct flow *f, const struct sock_common *sk)
{
	f->family = sk->skc_family;
	f->local_port = sk->skc_num;
	f->remote_port = __builtin_bswap16(sk->skc_dport);
	f->remote[0] = sk->skc_daddr;
	if (f->family == AF_INET6)
		__builtin_memcpy(f->remote, &sk->skc_v6_daddr, sizeof f->remote);
}

SEC("struct_ops")
int opened(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct state *s = stored(sk, BPF_SK_STORAGE_GET_F_CREATE);
	struct common *c = COMMON(sk);
	struct flow f = {};

	if (!s)
		return 0; /* no memory: the connection keeps its initial window */
	c->connection = __sync_fetch_and_add(&counters.opened, 1) + 1;
	c->una = ((struct tcp_sock *)sk)->snd_una;
	look(&f, sk, c);
	c->state = f.state;
	f.total_delivered = ((struct tcp_sock *)sk)->delivered;
	address(&f, &sk->__sk_common);
	note(&f, OPENED, 1);
	CALL(begin, s, &f);
	write_back(sk, &f);
	pace(sk, &f);
	return 0;
}

SEC("struct_ops")
int closed(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct flow f = {};

	if (!COMMON(sk)->connection)
		return 0; /* never established */
	look(&f, sk, COMMON(sk));
	__sync_fetch_and_add(&counters.closed, 1);
	note(&f, CLOSED, 1);
#ifdef PACED
	/* Leave a finite cwnd to the next algorithm. */
	f.cwnd = most(f.in_flight, 10);
	write_back(sk, &f);
#endif
#ifdef STORED
	bpf_sk_storage_delete(&states, sk);
#endif
	return 0;
}

/* Fills in the bytes that an ACK acknowledges cumulatively, after hooks that were skipped before it. */
INLINE void acknowledged(struct sock *sk, struct state *s, struct flow *f)
{
	struct common *c = COMMON(sk);

	caught_up(sk, s, f);
	f->acked = f->snd_una - c->una;
	c->una = f->snd_una;
}

#ifdef PACED

/* cong_control(sk, ack, flag, rs) since Linux 6.10; the loader refuses kernels that have (sk, rs). */
SEC("struct_ops")
int controlled(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	const struct rate_sample *rs = (void *)ctx[3];
	struct state *s = state_of(sk);
	struct flow f = {};

	if (!s)
		return 0;
	look(&f, sk, COMMON(sk));
	acknowledged(sk, s, &f);
	f.rtt_us = rs->rtt_us;
	f.delivered = rs->acked_sacked * f.mss;
	f.total_delivered = ((struct tcp_sock *)sk)->delivered;
	f.sampled = rs->delivered;
	f.interval_us = rs->interval_us > 0 ? rs->interval_us : 0;
	f.losses = rs->losses;
	f.app_limited = rs->is_app_limited;
	f.ecn_echo = !!(ctx[2] & FLAG_ECE);
	f.may_grow = window_is_the_limit((void *)sk);
	note(&f, ACK, 2);
	algorithm.control(s, &f);
	write_back(sk, &f);
	pace(sk, &f);
	return 0;
}

#ifdef BURST
SEC("struct_ops")
int at_once(void *ctx __attribute__((unused)))
{
	return BURST;
}
#endif

/* Let the send buffer hold three windows, so that the application does not limit the sender. */
SEC("struct_ops")
int expanded(void *ctx __attribute__((unused)))
{
	return 3;
}

#else

SEC("struct_ops")
int sampled(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	const struct ack_sample *a = (void *)ctx[1];
	struct state *s = state_of(sk);
	struct flow f = {};

	if (!s)
		return 0; /* sample of the handshake, before `opened` */
	look(&f, sk, COMMON(sk));
	acknowledged(sk, s, &f);
	f.rtt_us = a->rtt_us;
	note(&f, SAMPLE, 2);
	CALL(sample, s, &f);
	return 0;
}

SEC("struct_ops")
int avoided(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct state *s = state_of(sk);
	struct flow f = {};

	if (!s)
		return 0;
	look(&f, sk, COMMON(sk));
	f.segments = ctx[2];
	f.may_grow = window_is_the_limit((void *)sk);
	note(&f, ACK, 2);
	CALL(avoid, s, &f);
	write_back(sk, &f);
	return 0;
}

#endif

SEC("struct_ops")
int reduced(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct state *s = state_of(sk);
	struct flow f = {};

	look(&f, sk, COMMON(sk));
	if (!s)
		return most(f.cwnd / 2, 2); /* a lost SYN; the kernel undoes this reduction at the first ACK */
	__sync_fetch_and_add(&counters.congestions, 1);
	note(&f, CONGESTION, 1);
	return least(algorithm.ssthresh(s, &f), INFINITE);
}

SEC("struct_ops")
int changed_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct state *s = state_of(sk);
	struct flow f = {};

	if (!s)
		return 0;
	look(&f, sk, COMMON(sk));
	COMMON(sk)->state = f.state = ctx[1];
	if (f.state == TCP_CA_Loss)
		__sync_fetch_and_add(&counters.timeouts, 1);
	note(&f, STATE, 1);
	CALL(changed, s, &f);
	write_back(sk, &f);
	pace(sk, &f);
	return 0;
}

SEC("struct_ops")
int happened(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct state *s = state_of(sk);
	u32 event = ctx[1];
	struct flow f = {};

	if (!s || (event != CA_EVENT_TX_START && event != CA_EVENT_COMPLETE_CWR))
		return 0;
	look(&f, sk, COMMON(sk));
	if (event == CA_EVENT_TX_START) {
		note(&f, STARTED, 2);
		CALL(started, s, &f);
	} else {
		note(&f, RECOVERED, 1);
		CALL(recovered, s, &f);
	}
	write_back(sk, &f);
	return 0;
}

SEC("struct_ops")
int undone(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct state *s = state_of(sk);
	struct flow f = {};

	look(&f, sk, COMMON(sk));
	__sync_fetch_and_add(&counters.undone, 1);
	note(&f, UNDONE, 1);
	if (!s)
		return most(f.cwnd, f.prior_cwnd); /* a lost SYN */
	CALL(undone, s, &f);
	return undone_window(&f);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops entry = {
	.init = (void *)opened,
	.release = (void *)closed,
#ifdef PACED
	.cong_control = (void *)controlled,
#ifdef BURST
	.min_tso_segs = (void *)at_once,
#endif
	.sndbuf_expand = (void *)expanded,
#else
	.pkts_acked = (void *)sampled,
	.cong_avoid = (void *)avoided,
#endif
	.ssthresh = (void *)reduced,
	.set_state = (void *)changed_state,
	.cwnd_event = (void *)happened,
	.undo_cwnd = (void *)undone,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "roughlink", /* replaced by the loader */
};
_Static_assert(__builtin_offsetof(struct tcp_congestion_ops, name) == 72, "as in load.rs");

/* --- Open connections --- */

/* Name in the kernel, set by the loader. */
const volatile char own_name[16] SEC(".rodata.name") = {};

/* Returns the TCP socket of `sk` if it uses this algorithm and its connection was established, else NULL. */
INLINE struct tcp_sock *ours(struct sock_common *sk)
{
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : (void *)0;
	const struct tcp_congestion_ops *ops;

	if (!tp)
		return tp;
	ops = ((struct inet_connection_sock *)tp)->icsk_ca_ops;
	for (int i = 0; i < 16; i++)
		if (ops->name[i] != own_name[i])
			return (void *)0;
	return COMMON(tp)->connection ? tp : (void *)0;
}

/* Iterator that returns a record per connection of the reader's namespace. */
SEC("iter/tcp")
int connections(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tp = ours(ctx->sk_common);
	struct flow f = { .kind = OPENED };

	if (!tp)
		return 0;
	look(&f, (void *)tp, COMMON(tp));
	address(&f, (void *)tp);
	bpf_seq_write(ctx->meta->seq, &f, sizeof f);
	return 0;
}

/* --- Replay: runs the arithmetic on one recorded event per call; only tests load it --- */

struct state replayed;
struct flow replay_flow;
bool replay_recovered;

SEC("syscall")
int replay(struct flow *e)
{
	struct state *s = &replayed;
	struct flow f = *e;

	/* Use the window of the replay, not of the recording. */
	f.cwnd = replay_flow.cwnd;
	f.ssthresh = replay_flow.ssthresh;
	f.prior_cwnd = replay_flow.prior_cwnd;
	f.prior_ssthresh = replay_flow.prior_ssthresh;
	switch (e->kind) {
	case OPENED:
		__builtin_memset(s, 0, sizeof *s);
		f.cwnd = e->cwnd;
		f.ssthresh = e->ssthresh;
		f.prior_cwnd = 0;
		f.prior_ssthresh = ~0u;
		replay_recovered = 0;
		CALL(begin, s, &f);
		break;
	case ACK:
		f.state = replay_flow.state;
		CALL(sample, s, &f);
		if (f.state != e->state) {
			f.state = e->state;
			CALL(changed, s, &f);
		}
		if (replay_recovered) {
			replay_recovered = 0;
			CALL(recovered, s, &f);
		}
		CALL(control, s, &f);
		if (f.segments && (f.may_grow || (f.state == TCP_CA_Open && f.acked)))
			CALL(avoid, s, &f);
		break;
	case CONGESTION:
	case TIMEOUT:
	case TIMEOUT_AGAIN:
		if (e->state != replay_flow.state)
			CALL(changed, s, &f); /* the previous episode has just ended */
		if (e->kind != TIMEOUT_AGAIN) {
			u32 ssthresh = algorithm.ssthresh(s, &f);

			if (e->state <= TCP_CA_Disorder || e->kind == TIMEOUT) {
				f.prior_cwnd = f.cwnd;
				f.prior_ssthresh = f.ssthresh;
			}
			f.ssthresh = f.cwnd = ssthresh;
		}
		f.state = e->kind == CONGESTION ? TCP_CA_Recovery : TCP_CA_Loss;
		if (f.state == TCP_CA_Loss)
			f.cwnd = 1;
		CALL(changed, s, &f);
		break;
	case RECOVERED:
		replay_recovered = replay_flow.state != TCP_CA_Loss;
		break;
	case UNDONE:
		CALL(undone, s, &f);
		f.cwnd = undone_window(&f);
		f.ssthresh = most(f.ssthresh, f.prior_ssthresh);
		break;
	case STARTED:
		CALL(started, s, &f);
		break;
	}
	f.state = e->kind == RECOVERED || e->kind == UNDONE || e->kind == STARTED ? replay_flow.state : f.state;
	replay_flow = f;
	e->cwnd = f.cwnd;
	e->ssthresh = f.ssthresh;
	e->pacing_rate = f.pacing_rate;
	return 0;
}
