/* Many who talk to a service at once, in one process, over its unix socket.

   clients submit SOCKET CLIENTS SECONDS FILE   each has one connection, sends the request in FILE, reads the answer,
                                                and so on until the time is up; prints how long it took in all, in
                                                nanoseconds, and the first id in each answer
   clients listen SOCKET READERS                each reads the stream of events; prints "ready" when all hear, then for
                                                each line of its input: the fewest and the most events of jobs that a
                                                reader had, the fewest ends of jobs, and how often events were missing

   It fails where an answer is not what it has to be. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER 65536
#define LINE 512
#define AT_ONCE 64

/* HTTP/1.0: so that the stream comes as it is, not in chunks. */
#define LISTEN "GET /v1/events HTTP/1.0\r\nhost: nexus\r\n\r\n"

struct client {
    int socket;
    size_t length;
    char answer[ANSWER];
};

struct reader {
    int socket;
    size_t length;
    char line[LINE];
    long long number;
    long events, ends, missing;
};

static void fail(const char *what) {
    fprintf(stderr, "clients: %s\n", what);
    exit(3);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void send_all(int to, const char *text, size_t length) {
    if (write(to, text, length) != (ssize_t)length) fail("a request was not taken");
}

static int connected(const char *path, int watch, void *whose) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct epoll_event wish = {.events = EPOLLIN, .data.ptr = whose};
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    if (made < 0 || strlen(path) >= sizeof address.sun_path) fail("no socket");
    strcpy(address.sun_path, path);
    if (connect(made, (struct sockaddr *)&address, sizeof address)) fail("the service cannot be reached");
    if (epoll_ctl(watch, EPOLL_CTL_ADD, made, &wish)) fail("epoll");
    return made;
}

/* Whether an answer is here as a whole; then its first id is printed. */
static int answered(struct client *client) {
    ssize_t more = read(client->socket, client->answer + client->length, ANSWER - 1 - client->length);
    if (more <= 0) fail("a connection was closed, or an answer is too long");
    client->length += more;
    client->answer[client->length] = 0;
    char *body = strstr(client->answer, "\r\n\r\n");
    if (!body) return 0;
    char *size = strstr(client->answer, "content-length: ");
    if (!size || strncmp(client->answer, "HTTP/1.1 200", 12)) fail(client->answer);
    if (client->length < (size_t)(body + 4 - client->answer) + strtoul(size + 16, NULL, 10)) return 0;
    char *id = strstr(body, "\"id\":\"");
    if (!id) fail("an answer without an id");
    printf("%.*s\n", (int)strcspn(id + 6, "\""), id + 6);
    client->length = 0;
    return 1;
}

static int submit(const char *path, int count, double seconds, const char *name) {
    static char request[ANSWER];
    FILE *file = fopen(name, "r");
    size_t length = file ? fread(request, 1, sizeof request, file) : 0;
    if (!length) fail("there is no request");
    struct client *clients = calloc(count, sizeof *clients);
    struct epoll_event heard[AT_ONCE];
    int watch = epoll_create1(0), busy = count;
    for (int number = 0; number < count; number++) clients[number].socket = connected(path, watch, &clients[number]);
    long long begin = now();
    for (int number = 0; number < count; number++) send_all(clients[number].socket, request, length);
    while (busy > 0) {
        int some = epoll_wait(watch, heard, AT_ONCE, -1);
        for (int number = 0; number < some; number++) {
            struct client *client = heard[number].data.ptr;
            if (!answered(client)) continue;
            if (now() - begin < seconds * 1e9) send_all(client->socket, request, length);
            else busy--;
        }
    }
    printf("%lld\n", now() - begin);
    return 0;
}

/* Whether this line is the first that a reader is told. */
static int told(struct reader *reader) {
    char *line = reader->line;
    if (!strncmp(line, "id: ", 4)) {
        long long number = atoll(line + 4);
        if (reader->number && number != reader->number + 1) reader->missing++;
        reader->number = number;
    }
    if (!strncmp(line, "data: ", 6)) {
        reader->events += strstr(line, "\"kind\":\"job\"") != NULL;
        reader->ends += strstr(line, "\"state\":\"completed\"") != NULL;
        reader->missing += strstr(line, "\"kind\":\"missed\"") != NULL;
    }
    return !strcmp(line, ": nexus events");
}

static int hear(struct reader *reader) {
    static char some[ANSWER];
    ssize_t length = read(reader->socket, some, sizeof some);
    int first = 0;
    if (length <= 0) fail("a stream has ended");
    for (ssize_t at = 0; at < length; at++) {
        if (some[at] == '\n') {
            reader->line[reader->length] = 0;
            first += told(reader);
            reader->length = 0;
        } else if (reader->length < LINE - 1) {
            reader->line[reader->length++] = some[at];
        }
    }
    return first;
}

static void report(struct reader *readers, int count) {
    long fewest = readers[0].events, most = fewest, ends = readers[0].ends, missing = 0;
    for (int number = 0; number < count; number++) {
        struct reader *reader = &readers[number];
        if (reader->events < fewest) fewest = reader->events;
        if (reader->events > most) most = reader->events;
        if (reader->ends < ends) ends = reader->ends;
        missing += reader->missing;
    }
    printf("%ld %ld %ld %ld\n", fewest, most, ends, missing);
    fflush(stdout);
}

static int listen_all(const char *path, int count) {
    struct reader *readers = calloc(count, sizeof *readers);
    struct epoll_event heard[AT_ONCE], asked = {.events = EPOLLIN, .data.ptr = NULL};
    char line[LINE];
    int watch = epoll_create1(0), ready = 0;
    if (epoll_ctl(watch, EPOLL_CTL_ADD, 0, &asked)) fail("epoll");
    for (int number = 0; number < count; number++) {
        readers[number].socket = connected(path, watch, &readers[number]);
        send_all(readers[number].socket, LISTEN, strlen(LISTEN));
    }
    for (;;) {
        int some = epoll_wait(watch, heard, AT_ONCE, -1);
        for (int number = 0; number < some; number++) {
            struct reader *reader = heard[number].data.ptr;
            if (!reader) {
                if (read(0, line, sizeof line) <= 0) return 0;
                report(readers, count);
            } else if (hear(reader) && ++ready == count) {
                puts("ready");
                fflush(stdout);
            }
        }
    }
}

int main(int count, char **words) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (count == 6 && !strcmp(words[1], "submit")) return submit(words[2], atoi(words[3]), atof(words[4]), words[5]);
    if (count == 4 && !strcmp(words[1], "listen")) return listen_all(words[2], atoi(words[3]));
    return 2;
}
