/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations of the kernel types and helpers that the programs use, limited to the members that they access.
 *
 * `preserve_access_index` makes every access a CO-RE relocation (Compile Once, Run Everywhere), so the loader finds the
 * member's offset in the running kernel. Helper numbers are part of the kernel's user API (enum bpf_func_id).
 */
#ifndef ROUGHLINK_KERNEL_H
#define ROUGHLINK_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

#define RELOCATED __attribute__((preserve_access_index))

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num; /* the first in network order */
	u16 skc_family;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate, sk_max_pacing_rate; /* bytes per second */
	u32 sk_pacing_status;
} RELOCATED;

struct tcp_congestion_ops;

struct inet_connection_sock {
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[13];
} RELOCATED;

struct tcp_sock {
	u32 mss_cache;
	u32 snd_cwnd, snd_cwnd_cnt, snd_ssthresh, snd_cwnd_clamp;
	u32 prior_cwnd, prior_ssthresh;
	u32 packets_out, sacked_out, lost_out, retrans_out, max_packets_out;
	u32 snd_una, snd_nxt;
	u32 srtt_us; /* eight times the smoothed RTT */
	u32 delivered; /* segments */
	u64 tcp_mstamp; /* us */
	u8 is_cwnd_limited : 1;
} RELOCATED;

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
} RELOCATED;

struct rate_sample {
	s32 delivered;
	long interval_us, rtt_us;
	int losses;
	u32 acked_sacked;
	bool is_app_limited;
} RELOCATED;

#define FLAG_ECE 0x40 /* in the flags of an ACK */

enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART, CA_EVENT_COMPLETE_CWR, CA_EVENT_LOSS };
enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

/* Unprivileged programs may select the algorithm, and any network namespace may have it as its default. */
#define TCP_CONG_NON_RESTRICTED 1

#define AF_INET6 10

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *);
	void (*cong_avoid)(struct sock *, u32, u32);
	void (*set_state)(struct sock *, u8);
	void (*cwnd_event)(struct sock *, enum tcp_ca_event);
	void (*pkts_acked)(struct sock *, const struct ack_sample *);
	u32 (*min_tso_segs)(struct sock *);
	void (*cong_control)(struct sock *, u32, int, const struct rate_sample *);
	u32 (*undo_cwnd)(struct sock *);
	u32 (*sndbuf_expand)(struct sock *);
	char name[16];
	u32 flags;
	void (*init)(struct sock *);
	void (*release)(struct sock *);
} RELOCATED;

/* An iterator over sockets, which the kernel runs for each socket of the reader's namespace. */
struct bpf_iter_meta {
	void *seq;
} RELOCATED;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} RELOCATED;

/* Reads a bit field of the running kernel. Clang defines the numbers in __builtin_preserve_field_info. */
#define BIT_FIELD(s, field)                                                                       \
	(((u64) * (u8 *)((u8 *)(s) + __builtin_preserve_field_info((s)->field, 0 /* byte offset */))     \
	  << (__builtin_preserve_field_info((s)->field, 4 /* left shift of a u64 */) & 63))       \
	 >> __builtin_preserve_field_info((s)->field, 5 /* right shift */))

/* Definition of maps through BTF: a pointer encodes a type, and the length of an array encodes a number. */
#define MAP_NUMBER(name, n) int(*name)[n]
enum bpf_map_type { BPF_MAP_TYPE_SK_STORAGE = 24, BPF_MAP_TYPE_RINGBUF = 27 };
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*const bpf_sk_storage_delete)(void *map, void *sk) = (void *)108;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static long (*const bpf_seq_write)(void *seq, const void *data, u32 len) = (void *)127;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

#endif
