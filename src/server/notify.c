/* SPDX-License-Identifier: Apache-2.0 */
#include "server/notify.h"
#include "base/log.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_manager(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    size_t len = path ? strlen(path) : 0;

    if (!len || (path[0] != '/' && path[0] != '@') || len >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@') /* the abstract name space */
        to.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, size) < 0)
        log_warn("server", "the service manager was not told '%s': %s", state, strerror(errno));
    if (fd >= 0)
        close(fd);
}
