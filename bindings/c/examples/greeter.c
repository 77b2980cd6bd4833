/* A service in C and its client: `greeter serve` and `greeter greet NAME`. The names and numbers are those of
   examples/src/bin/greeter_by_hand.rs, so that either side may be Rust. */

#include <handoff.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELLO = 1, GREETED = 2 };

static int fail(void)
{
    int specific = 0, exception = handoff_last_exception(&specific);
    fprintf(stderr, "kind %d, exception %d: %s\n", handoff_last_kind(), exception, handoff_last_error());
    return 1;
}

/* Several threads may call it at once. */
static int serve(void *context, const struct handoff_caller *caller, uint32_t code,
                 struct handoff_parcel *request, struct handoff_parcel *reply)
{
    int *greeted = context;
    char name[200], hello[300];
    switch (code) {
    case HELLO:
        if (handoff_read_string(request, name, sizeof name) < 0)
            return handoff_refuse(HANDOFF_EXCEPTION_BAD_PARCELABLE, 0, handoff_last_error());
        if (!*name)
            return handoff_refuse(HANDOFF_EXCEPTION_ILLEGAL_ARGUMENT, 0, "nobody has an empty name");
        __atomic_fetch_add(greeted, 1, __ATOMIC_RELAXED);
        snprintf(hello, sizeof hello, "Hello %s (user %u)", name, caller->uid);
        return handoff_write_string(reply, hello);
    case GREETED:
        return handoff_write_i32(reply, __atomic_load_n(greeted, __ATOMIC_RELAXED));
    }
    return HANDOFF_UNKNOWN_TRANSACTION;
}

static void died(void *context)
{
    (void)context;
    puts("the service has died");
    fflush(stdout);
}

static int greet(struct handoff_object *greeter, const char *name)
{
    struct handoff_parcel *request = handoff_parcel_new(), *reply = handoff_parcel_new();
    char hello[300];
    int32_t greeted = 0;
    int ok = handoff_write_string(request, name) == 0
        && handoff_call(greeter, HELLO, request, reply, 5000) == 0
        && handoff_read_string(reply, hello, sizeof hello) >= 0
        && printf("%s\n", hello) > 0
        && handoff_call(greeter, GREETED, NULL, reply, 0) == 0
        && handoff_read_i32(reply, &greeted) == 0;
    handoff_parcel_free(request);
    handoff_parcel_free(reply);
    if (!ok)
        return fail();
    printf("%d greeted so far\n", greeted);
    return 0;
}

int main(int count, char **arguments)
{
    static int greeted;
    struct handoff_runtime *runtime = handoff_connect(NULL);
    if (!runtime)
        return fail();
    if (count == 2 && !strcmp(arguments[1], "serve")) {
        if (handoff_serve(runtime, "sample.greeter", "sample.IGreeter", serve, &greeted) < 0)
            return fail();
        puts("sample.greeter is there");
        fflush(stdout);
        getchar(); /* Until the standard input ends. */
        handoff_disconnect(runtime);
        return 0;
    }
    if (count < 3)
        return 2;
    struct handoff_object *greeter = handoff_find(runtime, "sample.greeter", 5000);
    if (!greeter)
        return fail();
    int status = 0;
    if (handoff_check_interface(greeter, "sample.IGreeter") < 0) {
        status = fail();
    } else if (!strcmp(arguments[1], "greet")) {
        status = greet(greeter, arguments[2]);
    } else { /* Waits until the service dies: greeter watch WHY */
        struct handoff_death *death = handoff_on_death(greeter, died, NULL);
        puts("watching");
        fflush(stdout);
        getchar();
        printf("alive: %d\n", handoff_is_alive(greeter));
        if (handoff_call(greeter, GREETED, NULL, NULL, 0) < 0)
            fail();
        handoff_death_free(death);
    }
    handoff_object_free(greeter);
    handoff_disconnect(runtime);
    return status;
}
