/* Sends the two directions of TCP connections as fast as possible, without kernels at the ends: each connection has a
   handshake, then data inward and acknowledgments outward in turn, with correct numbers and checksums.
   usage: flood INNER_DEVICE OUTER_DEVICE INNER_PEER OUTER_PEER SECONDS CONNECTIONS PAYLOAD
   A PEER is the Ethernet address to which frames at the device go. Prints the number of packets sent. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, HEADERS = 14 + 20 + 32, LONGEST = HEADERS + 1460 };
enum { FIN = 1, SYN = 2, ACK = 16 };

struct side {
    int fd;
    uint8_t own[6], peer[6];
    uint32_t address;
};
struct flow {
    uint32_t data, acked;
};

static uint32_t sum(const uint8_t *p, int n, uint32_t s) {
    for (; n > 1; n -= 2, p += 2)
        s += p[0] << 8 | p[1];
    return n ? s + (p[0] << 8) : s;
}

static uint16_t folded(uint32_t s) {
    while (s >> 16)
        s = (s & 0xffff) + (s >> 16);
    return htons(~s & 0xffff);
}

static void put16(uint8_t *p, uint16_t v) { v = htons(v), memcpy(p, &v, 2); }
static void put32(uint8_t *p, uint32_t v) { v = htonl(v), memcpy(p, &v, 4); }

/* Writes a segment from one side to the other; returns the length of the frame. */
static int segment(uint8_t *f, const struct side *from, const struct side *to, int flow, int outward, int flags,
                   uint32_t seq, uint32_t ack, int payload) {
    memset(f, 0, HEADERS);
    memcpy(f, from->peer, 6), memcpy(f + 6, from->own, 6), put16(f + 12, 0x0800);
    uint8_t *ip = f + 14, *tcp = ip + 20;
    ip[0] = 0x45, ip[8] = 64, ip[9] = 6, put16(ip + 2, 52 + payload), put16(ip + 6, 0x4000);
    put32(ip + 12, from->address), put32(ip + 16, to->address);
    uint16_t check = folded(sum(ip, 20, 0));
    memcpy(ip + 10, &check, 2);
    put16(tcp, outward ? 20000 + flow : 80), put16(tcp + 2, outward ? 80 : 20000 + flow);
    put32(tcp + 4, seq), put32(tcp + 8, ack);
    tcp[12] = 8 << 4, tcp[13] = flags, put16(tcp + 14, 0xffff);
    /* Options of 12 bytes: MSS 1460 and window scale 7 in a SYN, otherwise padding. */
    memset(tcp + 20, 1, 12);
    if (flags & SYN)
        memcpy(tcp + 20, (uint8_t[]){2, 4, 5, 0xb4, 3, 3, 7}, 7);
    check = folded(sum(tcp, 32 + payload, sum(ip + 12, 8, 6 + 32 + payload)));
    memcpy(tcp + 16, &check, 2);
    return HEADERS + payload;
}

static struct side opened(const char *device, const char *peer, uint32_t address) {
    struct side side = {.fd = socket(AF_PACKET, SOCK_RAW, 0), .address = address};
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device)};
    if (bind(side.fd, (struct sockaddr *)&at, sizeof at))
        perror(device), exit(1);
    sscanf(peer, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", side.peer, side.peer + 1, side.peer + 2, side.peer + 3, side.peer + 4,
           side.peer + 5);
    memcpy(side.own, (uint8_t[]){2, 0, 0, 0, 9, address & 0xff}, 6);
    return side;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int n, char **a) {
    if (n != 8)
        return fputs("usage: flood INNER OUTER INNER_PEER OUTER_PEER SECONDS CONNECTIONS PAYLOAD\n", stderr), 2;
    struct side inner = opened(a[1], a[3], 0x0a090102), outer = opened(a[2], a[4], 0x0a090202);
    double end = now() + atof(a[5]);
    int flows = atoi(a[6]), payload = atoi(a[7]);
    static uint8_t frames[2][BATCH][LONGEST];
    struct flow *state = calloc(flows, sizeof *state);
    struct mmsghdr messages[2][BATCH];
    struct iovec parts[2][BATCH];
    memset(messages, 0, sizeof messages);
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < BATCH; i++) {
            parts[d][i].iov_base = frames[d][i];
            messages[d][i].msg_hdr.msg_iov = &parts[d][i], messages[d][i].msg_hdr.msg_iovlen = 1;
        }
    for (int f = 0; f < flows; f++) {
        uint8_t *frame = frames[0][0];
        write(inner.fd, frame, segment(frame, &inner, &outer, f, 1, SYN, 1000, 0, 0));
        usleep(200);
        write(outer.fd, frame, segment(frame, &outer, &inner, f, 0, SYN | ACK, 5000, 1001, 0));
        usleep(200);
        write(inner.fd, frame, segment(frame, &inner, &outer, f, 1, ACK, 1001, 5001, 0));
        state[f] = (struct flow){5001, 5001};
    }
    long sent = 0;
    for (int next = 0; now() < end;) {
        for (int i = 0; i < BATCH; i++, next = (next + 1) % flows) {
            struct flow *f = &state[next];
            parts[0][i].iov_len =
                segment(frames[0][i], &outer, &inner, next, 0, ACK, f->data, 1001, payload);
            f->acked = f->data, f->data += payload;
            parts[1][i].iov_len = segment(frames[1][i], &inner, &outer, next, 1, ACK, 1001, f->acked, 0);
        }
        for (int d = 0; d < 2; d++) {
            int done = sendmmsg(d ? inner.fd : outer.fd, messages[d], BATCH, 0);
            sent += done > 0 ? done : 0;
        }
    }
    printf("%ld\n", sent);
}
