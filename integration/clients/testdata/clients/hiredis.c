/* Everyday use of hiredis through lockproxy, transactions, a blocking pop, a subscription and a script:
 * hiredis HOST PORT. hiredis has no cluster mode, and no RESP3 before its version 1.0. */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *host;
static int port;

static redisContext *connected(void) {
    struct timeval patience = {120, 0};
    redisContext *c = redisConnectWithTimeout(host, port, patience);
    if (c == NULL || c->err) {
        fprintf(stderr, "connect: %s\n", c ? c->errstr : "no memory");
        exit(1);
    }
    redisSetTimeout(c, patience);
    return c;
}

/* show writes a reply as text: 1, 'a', null, OK, [1, 'a'], or the first word of an error. */
static void show(const redisReply *r, char *out, size_t size) {
    size_t i, n;
    if (r == NULL) {
        snprintf(out, size, "no reply");
    } else if (r->type == REDIS_REPLY_INTEGER) {
        snprintf(out, size, "%lld", r->integer);
    } else if (r->type == REDIS_REPLY_STRING) {
        snprintf(out, size, "'%s'", r->str);
    } else if (r->type == REDIS_REPLY_NIL) {
        snprintf(out, size, "null");
    } else if (r->type == REDIS_REPLY_ERROR) {
        snprintf(out, size, "%.*s", (int)strcspn(r->str, " "), r->str);
    } else if (r->type == REDIS_REPLY_STATUS) {
        snprintf(out, size, "%s", r->str);
    } else {
        n = snprintf(out, size, "[");
        for (i = 0; i < r->elements && n < size; i++) {
            if (i > 0) n += snprintf(out + n, size - n, ", ");
            show(r->element[i], out + n, size - n);
            n += strlen(out + n);
        }
        if (n < size) snprintf(out + n, size - n, "]");
    }
}

static void check(redisReply *r, const char *want) {
    char got[1024];
    show(r, got, sizeof got);
    if (r != NULL) freeReplyObject(r);
    if (strcmp(got, want) != 0) {
        fprintf(stderr, "got %s, want %s\n", got, want);
        exit(1);
    }
}

/* wants sends one command and checks its reply. */
static void wants(redisContext *c, const char *want, const char *format, ...) {
    va_list args;
    va_start(args, format);
    check(redisvCommand(c, format, args), want);
    va_end(args);
}

static void everyday(redisContext *c, const char *k) {
    int i;
    char want[32];
    redisReply *r;
    wants(c, "PONG", "PING");
    wants(c, "OK", "SET %sk v", k);
    wants(c, "'v'", "GET %sk", k);
    wants(c, "null", "GET %snone", k);
    wants(c, "OK", "MSET a%s 1 b%s 2", k, k);
    wants(c, "['1', null, '2']", "MGET a%s none%s b%s", k, k, k);
    wants(c, "2", "DEL a%s b%s", k, k);
    wants(c, "2", "HSET %sh f v g w", k);
    wants(c, "['f', 'v', 'g', 'w']", "HGETALL %sh", k);
    wants(c, "WRONGTYPE", "INCR %sh", k);
    for (i = 0; i < 200; i++) {
        redisAppendCommand(c, "SET %sp%d %d", k, i, i);
        redisAppendCommand(c, "GET %sp%d", k, i);
    }
    for (i = 0; i < 400; i++) {
        if (redisGetReply(c, (void **)&r) != REDIS_OK) r = NULL;
        snprintf(want, sizeof want, "'%d'", i / 2);
        check(r, i % 2 ? want : "OK");
    }
    wants(c, "null", "UNLOCK %sjob t", k);
    r = redisCommand(c, "LOCK %sjob TOKEN t PX 100000", k);
    if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != 4) {
        fprintf(stderr, "LOCK: no grant\n");
        exit(1);
    }
    freeReplyObject(r);
    wants(c, "null", "LOCK %sjob TOKEN u", k);
    wants(c, "1", "UNLOCK %sjob t", k);
}

static void transactions(redisContext *c, redisContext *other, const char *k) {
    wants(c, "OK", "MULTI");
    wants(c, "QUEUED", "SET %sn 1", k);
    wants(c, "QUEUED", "INCR %sn", k);
    wants(c, "[OK, 2]", "EXEC");
    wants(c, "OK", "WATCH %sn", k);
    wants(other, "3", "INCR %sn", k);
    wants(c, "OK", "MULTI");
    wants(c, "QUEUED", "INCR %sn", k);
    wants(c, "null", "EXEC");
    wants(c, "OK", "WATCH %sn", k);
    wants(c, "OK", "MULTI");
    wants(c, "QUEUED", "INCR %sn", k);
    wants(c, "[4]", "EXEC");
}

static void blocking(redisContext *c, const char *k) {
    char want[256];
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        usleep(50000);
        wants(connected(), "1", "RPUSH %sl x", k);
        _exit(0);
    }
    snprintf(want, sizeof want, "['%sl', 'x']", k);
    wants(c, want, "BLPOP %snone %sl 15", k, k);
    if (waitpid(pid, &status, 0) != pid || status != 0) exit(1);
}

static void subscription(redisContext *c, redisContext *other, const char *k) {
    char want[256];
    redisReply *r = NULL;
    snprintf(want, sizeof want, "['subscribe', '%sc', 1]", k);
    wants(c, want, "SUBSCRIBE %sc", k);
    wants(other, "1", "PUBLISH %sc one", k);
    snprintf(want, sizeof want, "['message', '%sc', 'one']", k);
    redisGetReply(c, (void **)&r);
    check(r, want);
    snprintf(want, sizeof want, "['unsubscribe', '%sc', 0]", k);
    wants(c, want, "UNSUBSCRIBE");
}

/* script sends EVALSHA of a script that nobody has, and loads it when that is said. */
static void script(redisContext *c, const char *k) {
    char text[256], sha[41];
    redisReply *r;
    snprintf(text, sizeof text, "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- %s", k);
    wants(c, "NOSCRIPT", "EVALSHA 0000000000000000000000000000000000000000 1 %sn 10", k);
    r = redisCommand(c, "SCRIPT LOAD %s", text);
    if (r == NULL || r->type != REDIS_REPLY_STRING || r->len != 40) exit(1);
    strcpy(sha, r->str);
    freeReplyObject(r);
    wants(c, "14", "EVALSHA %s 1 %sn 10", sha, k);
}

int main(int argc, char **argv) {
    char k[64];
    redisContext *c, *other;
    if (argc < 3) return 2;
    host = argv[1];
    port = atoi(argv[2]);
    snprintf(k, sizeof k, "{c%d-%d}:", port, (int)getpid());
    c = connected();
    other = connected();
    everyday(c, k);
    transactions(c, other, k);
    blocking(c, k);
    subscription(c, other, k);
    script(c, k);
    redisFree(c);
    redisFree(other);
    puts("ok");
    return 0;
}
