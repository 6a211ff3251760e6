/* Accepts all packets of a netfilter queue without looking at them: the least that a program at a queue does.
   usage: accept QUEUE */
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd, queue;

struct message {
    struct nlmsghdr header;
    struct nfgenmsg family;
    struct nlattr attribute;
    char value[12];
};

static void say(int type, int attribute, const void *value, int length) {
    struct message m = {{NLMSG_LENGTH(sizeof m.family) + NLA_HDRLEN + NLA_ALIGN(length),
                         NFNL_SUBSYS_QUEUE << 8 | type, NLM_F_REQUEST, 0, 0},
                        {AF_UNSPEC, NFNETLINK_V0, htons(queue)},
                        {NLA_HDRLEN + length, attribute},
                        {0}};
    memcpy(m.value, value, length);
    if (send(fd, &m, m.header.nlmsg_len, 0) < 0)
        perror("netlink"), exit(1);
}

int main(int n, char **a) {
    if (n != 2)
        return fputs("usage: accept QUEUE\n", stderr), 2;
    queue = atoi(a[1]);
    fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
    int bytes = 16 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    say(NFQNL_MSG_CONFIG, NFQA_CFG_CMD, &(struct nfqnl_msg_config_cmd){NFQNL_CFG_CMD_BIND, 0, 0}, 4);
    say(NFQNL_MSG_CONFIG, NFQA_CFG_PARAMS, &(struct nfqnl_msg_config_params){htonl(0xffff), NFQNL_COPY_PACKET}, 5);
    say(NFQNL_MSG_CONFIG, NFQA_CFG_QUEUE_MAXLEN, &(uint32_t){htonl(5000)}, 4);
    static char buffer[70000];
    for (;;) {
        ssize_t length = recv(fd, buffer, sizeof buffer, 0);
        struct nlmsghdr *header = (void *)buffer;
        if (length < (ssize_t)sizeof *header || header->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
            continue;
        char *at = (char *)NLMSG_DATA(header) + sizeof(struct nfgenmsg), *end = buffer + header->nlmsg_len;
        while (at + NLA_HDRLEN <= end) {
            struct nlattr *attribute = (void *)at;
            if (attribute->nla_type == NFQA_PACKET_HDR) {
                struct nfqnl_msg_packet_hdr *packet = (void *)(at + NLA_HDRLEN);
                say(NFQNL_MSG_VERDICT, NFQA_VERDICT_HDR,
                    &(struct nfqnl_msg_verdict_hdr){htonl(NF_ACCEPT), packet->packet_id}, 8);
                break;
            }
            at += NLA_ALIGN(attribute->nla_len);
        }
    }
}
