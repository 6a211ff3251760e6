/* Endpoint of an SCTP association by libusrsctp, an implementation independent of roughlink, over raw IP sockets.
 *
 * `peer receive ADDRESS PORT` listens, and writes the data of the first association to standard output.
 * `peer send ADDRESS PORT BYTES MTU` connects, and sends standard input in messages of BYTES bytes.
 *
 * The library does not read the MTU of a device from the kernel, which refuses longer packets.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usrsctp.h>

#define MOST 1000000
/* IPv4 and common headers, bytes; the library's MTU excludes them. */
#define HEADERS 32

static char buffer[MOST];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void receive_all(struct socket *from)
{
    ssize_t n;
    for (;;) {
        struct sctp_rcvinfo info;
        socklen_t length = sizeof info;
        unsigned int type = 0;
        int flags = 0;
        n = usrsctp_recvv(from, buffer, MOST, NULL, NULL, &info, &length, &type, &flags);
        if (n <= 0)
            break;
        if (!(flags & MSG_NOTIFICATION) && write(STDOUT_FILENO, buffer, n) != n)
            fail("write");
    }
    if (n < 0)
        fail("receive");
}

static void send_all(struct socket *to, size_t each)
{
    size_t n;
    while ((n = fread(buffer, 1, each, stdin)) > 0)
        if (usrsctp_sendv(to, buffer, n, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) != (ssize_t)n)
            fail("send");
    if (usrsctp_shutdown(to, SHUT_WR) < 0)
        fail("shutdown");
    /* Wait until the peer has confirmed the shutdown. */
    while (usrsctp_recvv(to, buffer, MOST, NULL, NULL, NULL, &(socklen_t){0}, &(unsigned int){0}, &(int){0}) > 0)
        ;
}

int main(int argc, char **argv)
{
    int sends = argc == 6 && strcmp(argv[1], "send") == 0;
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct socket *socket;

    if (!sends && !(argc == 4 && strcmp(argv[1], "receive") == 0)) {
        fputs("peer receive ADDRESS PORT | peer send ADDRESS PORT BYTES MTU\n", stderr);
        return 2;
    }
    at.sin_port = htons(atoi(argv[3]));
    if (inet_pton(AF_INET, argv[2], &at.sin_addr) != 1)
        fail("address");
    usrsctp_init(0, NULL, NULL);
    socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (!socket)
        fail("socket");
    if (sends) {
        size_t each = strtoul(argv[4], NULL, 10);
        struct sctp_paddrparams path = {.spp_flags = SPP_PMTUD_DISABLE};
        if (each == 0 || each > MOST)
            fail("bytes");
        path.spp_pathmtu = atoi(argv[5]) - HEADERS;
        if (usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &path, sizeof path) < 0)
            fail("MTU");
        if (usrsctp_connect(socket, (struct sockaddr *)&at, sizeof at) < 0)
            fail("connect");
        send_all(socket, each);
    } else {
        struct socket *listener = socket;
        if (usrsctp_bind(listener, (struct sockaddr *)&at, sizeof at) < 0)
            fail("bind");
        if (usrsctp_listen(listener, 1) < 0)
            fail("listen");
        fputs("listening\n", stderr);
        socket = usrsctp_accept(listener, NULL, NULL);
        if (!socket)
            fail("accept");
        receive_all(socket);
        usrsctp_close(listener);
    }
    usrsctp_close(socket);
    /* Wait until nothing is left to send. */
    for (int i = 0; i < 500 && usrsctp_finish() != 0; i++)
        usleep(10000);
    return 0;
}
