/* Plain copier between two TUN devices: the least that any emulator in user space does for a packet.
 *
 *   copier [--joined] SETUP
 *       Creates the TUN devices `outside0` and `inside0`, runs the shell script SETUP, and copies packets from one
 *       device to the other until the script ends. With `--joined`, the kernels leave the division of TCP segments to
 *       the devices, and the copier passes them on undivided.
 *
 * One thread; a `poll`, then one `read` and one `write` per packet for as long as there are packets, at most 64. The
 * exit code is that of the script, or 1 after an error, with a message on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 64, LONGEST = 1 << 17 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int device(const char *name, int joined) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | (joined ? IFF_VNET_HDR : 0)};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail("/dev/net/tun");
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(fd, TUNSETIFF, &request)) fail("TUNSETIFF");
    unsigned left = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    if (joined && ioctl(fd, TUNSETOFFLOAD, left)) fail("TUNSETOFFLOAD");
    return fd;
}

int main(int count, char **arguments) {
    static char buffer[LONGEST];
    int joined = count > 2 && !strcmp(arguments[1], "--joined");
    if (count != 2 + joined) {
        fprintf(stderr, "usage: copier [--joined] SETUP\n");
        return 1;
    }
    struct pollfd devices[2] = {{.events = POLLIN}, {.events = POLLIN}};
    devices[0].fd = device("outside0", joined);
    devices[1].fd = device("inside0", joined);
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (!child) {
        execl("/bin/sh", "sh", arguments[1 + joined], (char *)NULL);
        fail("sh");
    }
    for (int status;;) {
        int ready = poll(devices, 2, 20);
        if (ready < 0 && errno != EINTR) fail("poll");
        for (int from = 0; ready > 0 && from < 2; from++)
            for (int i = 0; devices[from].revents && i < BATCH; i++) {
                ssize_t size = read(devices[from].fd, buffer, sizeof buffer);
                if (size < 0) break;
                (void)!write(devices[1 - from].fd, buffer, size); /* a device that is down refuses packets */
            }
        if (!ready && waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
}
