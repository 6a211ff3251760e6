/* Programs for both ends of an emulated path, the same for every emulator: TCP, echoes and paced UDP, at little cost.
 *
 * Each program writes its results as 64-bit numbers to the file OUT. Times are in ns. Both ends are on one machine, so
 * the kernel's timestamps of arrivals (SO_TIMESTAMPNS, CLOCK_REALTIME) are comparable with the clock of the other end.
 * The time on the path is therefore known without the time that the programs need to wake up.
 *
 *   ends tcp-send  OUT PORT SECONDS CC
 *       Listens, then sends for SECONDS. Output: retransmissions, 1 if the kernel accepted CC.
 *   ends tcp-read  OUT ADDRESS PORT
 *       Connects, then reads to the end. Output: bytes, duration.
 *   ends echo      OUT PORT
 *       Answers datagrams until the last one. No output.
 *   ends ask       OUT ADDRESS PORT SECONDS RATE
 *       Sends RATE datagrams a second. Output for each answer: round trip seen by the program, path there, path back.
 *   ends udp-read  OUT PORT
 *       Reads until the last datagram, or 2 s without one. Output for each packet: number, arrival.
 *   ends udp-send  OUT ADDRESS PORT SECONDS RATE BYTES
 *       Sends RATE packets a second. Output: packets sent, packets refused, duration.
 *
 * The exit code is 1 after an error, with a message on stderr. A program ends after one minute at the latest.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 4, LAST = -1, BUFFER = 1 << 18 };

static FILE *out;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void put(uint64_t value) {
    if (fwrite(&value, sizeof value, 1, out) != 1) fail("write");
}

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static struct timespec span(uint64_t ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

static void sleep_until(uint64_t ns) {
    struct timespec t = span(ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static struct sockaddr_in address(const char *host, const char *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1) {
        fprintf(stderr, "no IPv4 address: %s\n", host);
        exit(1);
    }
    return a;
}

static int opened(int type) {
    int fd = socket(AF_INET, type, 0), on = 1, large = 64 << 20;
    if (fd < 0) fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (type == SOCK_DGRAM) {
        if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on)) fail("SO_TIMESTAMPNS");
        if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large))
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof large);
    }
    return fd;
}

static int bound(int type, const char *port) {
    int fd = opened(type);
    struct sockaddr_in a = address("0.0.0.0", port);
    if (bind(fd, (struct sockaddr *)&a, sizeof a)) fail("bind");
    return fd;
}

static int connected(const char *host, const char *port) {
    struct sockaddr_in a = address(host, port);
    for (int tries = 0;; tries++) {
        int fd = opened(SOCK_STREAM);
        if (!connect(fd, (struct sockaddr *)&a, sizeof a)) return fd;
        if (tries == 500) fail("connect");
        close(fd);
        usleep(10000);
    }
}

static int udp_to(const char *host, const char *port) {
    struct sockaddr_in a = address(host, port);
    int fd = opened(SOCK_DGRAM);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) fail("connect");
    usleep(300000); /* until the other end listens */
    return fd;
}

/* Returns the size of the next datagram and its arrival time at the socket; -1 if none arrives within `wait_ms`. */
static ssize_t receive(int fd, void *buffer, size_t size, struct sockaddr_in *from, uint64_t *arrival, int wait_ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char control[128];
    struct iovec part = {buffer, size};
    struct msghdr m = {.msg_name = from, .msg_namelen = from ? sizeof *from : 0, .msg_iov = &part, .msg_iovlen = 1,
                       .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
    if (n < 0) {
        if (poll(&p, 1, wait_ms) <= 0) return -1;
        m.msg_controllen = sizeof control;
        n = recvmsg(fd, &m, MSG_DONTWAIT);
        if (n < 0) return 0; /* refused: the other host does not listen yet */
    }
    *arrival = now(CLOCK_REALTIME);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            *arrival = t.tv_sec * 1000000000ull + t.tv_nsec;
        }
    return n;
}

static void tell_end(int fd) {
    uint64_t last[HEADER] = {LAST};
    for (int i = 0; i < 10; i++, usleep(20000)) (void)!send(fd, last, sizeof last, 0);
}

static void tcp_send(char **a) {
    int listener = bound(SOCK_STREAM, a[0]), fd, accepted;
    accepted = !setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, a[2], strlen(a[2]));
    if (listen(listener, 1) || (fd = accept(listener, NULL, NULL)) < 0) fail("accept");
    char *block = calloc(1, BUFFER);
    for (uint64_t end = now(CLOCK_MONOTONIC) + atof(a[1]) * 1e9; now(CLOCK_MONOTONIC) < end;)
        if (send(fd, block, BUFFER, MSG_NOSIGNAL) < 0) fail("send");
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size)) fail("TCP_INFO");
    put(info.tcpi_total_retrans);
    put(accepted);
}

static void tcp_read(char **a) {
    int fd = connected(a[0], a[1]);
    char *block = malloc(BUFFER);
    uint64_t total = 0, start = now(CLOCK_MONOTONIC), end = start;
    for (ssize_t n; (n = read(fd, block, BUFFER)) > 0; total += n) end = now(CLOCK_MONOTONIC);
    put(total);
    put(end - start);
}

static void echo(char **a) {
    int fd = bound(SOCK_DGRAM, a[0]);
    uint64_t data[HEADER], arrival;
    struct sockaddr_in from;
    while (receive(fd, data, sizeof data, &from, &arrival, 60000) >= 0 && data[0] != (uint64_t)LAST) {
        data[2] = arrival;
        data[3] = now(CLOCK_REALTIME);
        sendto(fd, data, sizeof data, 0, (struct sockaddr *)&from, sizeof from);
    }
}

static void ask(char **a) {
    int fd = udp_to(a[0], a[1]);
    uint64_t step = 1e9 / atof(a[3]), start = now(CLOCK_MONOTONIC) + 1, end = start + atof(a[2]) * 1e9, due = start;
    while (now(CLOCK_MONOTONIC) < end + 500000000) {
        uint64_t t = now(CLOCK_MONOTONIC), data[HEADER] = {0}, arrival;
        if (t >= due && due < end) {
            data[0] = t;
            data[1] = now(CLOCK_REALTIME);
            (void)!send(fd, data, sizeof data, 0);
            due += step;
            continue;
        }
        struct timespec wait = span(due > t && due < end ? due - t : due >= end ? 50000000 : 0);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (ppoll(&p, 1, &wait, NULL) <= 0 ||
            receive(fd, data, sizeof data, NULL, &arrival, 0) != sizeof data)
            continue;
        /* Skip the first tenth of a second: its packets resolve neighbors, open files and fill caches. */
        if (data[0] > start + 100000000) {
            put(now(CLOCK_MONOTONIC) - data[0]);
            put(data[2] - data[1]);
            put(arrival - data[3]);
        }
    }
    tell_end(fd);
}

static void udp_read(char **a) {
    int fd = bound(SOCK_DGRAM, a[0]), wait = 30000;
    uint64_t data[8192], arrival;
    while (receive(fd, data, sizeof data, NULL, &arrival, wait) >= 0 && data[0] != (uint64_t)LAST) {
        put(data[0]);
        put(arrival);
        wait = 2000;
    }
}

static void udp_send(char **a) {
    int fd = udp_to(a[0], a[1]);
    size_t size = atoi(a[4]);
    uint64_t data[8192] = {0}, step = 1e9 / atof(a[3]), refused = 0, sent = 0, start = now(CLOCK_MONOTONIC) + 100000000;
    /* Send one packet a moment before the others, so that neighbors are resolved before the measurement. */
    for (uint64_t end = start + atof(a[2]) * 1e9, due = start; due < end; data[0]++) {
        if (send(fd, data, size, 0) < 0) refused++;
        else sent++;
        sleep_until(due);
        due += step;
    }
    put(sent);
    put(refused);
    put(now(CLOCK_MONOTONIC) - start);
    tell_end(fd);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(char **); int arguments; } modes[] = {
        {"tcp-send", tcp_send, 3}, {"tcp-read", tcp_read, 2}, {"echo", echo, 1},
        {"ask", ask, 4}, {"udp-read", udp_read, 1}, {"udp-send", udp_send, 5},
    };
    prctl(PR_SET_TIMERSLACK, 1);
    alarm(60);
    for (size_t i = 0; count > 2 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(arguments[1], modes[i].name) && count == modes[i].arguments + 3) {
            if (!(out = fopen(arguments[2], "wb"))) fail(arguments[2]);
            modes[i].run(arguments + 3);
            if (fclose(out)) fail(arguments[2]);
            return 0;
        }
    fprintf(stderr, "what is to be run is in the head of ends.c\n");
    return 1;
}
