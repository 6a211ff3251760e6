/* Forwards frames between two devices without looking at them: the least that a bridge in user space does.
   usage: bridge DEVICE DEVICE */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int opened(const char *device) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL)), one = 1, bytes = 16 << 20;
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                             .sll_ifindex = if_nametoindex(device)};
    struct packet_mreq all = {.mr_ifindex = at.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    /* Each frame begins with a header that says which checksum is left to the card, and passes it on. */
    setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    if (bind(fd, (struct sockaddr *)&at, sizeof at))
        perror(device), exit(1);
    return fd;
}

int main(int n, char **a) {
    if (n != 3)
        return fputs("usage: bridge DEVICE DEVICE\n", stderr), 2;
    struct pollfd both[2] = {{opened(a[1]), POLLIN, 0}, {opened(a[2]), POLLIN, 0}};
    static char frame[65536];
    while (poll(both, 2, -1) > 0)
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 16; k++) {
                ssize_t length = recv(both[i].fd, frame, sizeof frame, 0);
                if (length <= 0)
                    break;
                send(both[1 - i].fd, frame, length, 0);
            }
}
