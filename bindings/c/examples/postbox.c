/* Objects and file descriptors: a letter is sent as a file, with an object that hears when it was read. `postbox serve`,
   `postbox send TEXT`. */

#include <handoff.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DELIVER = 1 }; /* IReceipt deliver(IReceipt receipt, in ParcelFileDescriptor letter); */
enum { WAS_READ = 1 }; /* oneway void wasRead(String text); */

static int fail(void)
{
    fprintf(stderr, "kind %d: %s\n", handoff_last_kind(), handoff_last_error());
    return 1;
}

static int serve(void *context, const struct handoff_caller *caller, uint32_t code,
                 struct handoff_parcel *request, struct handoff_parcel *reply)
{
    struct handoff_object *receipt = NULL;
    char letter[200];
    ssize_t size = 0;
    (void)context, (void)caller;
    if (code != DELIVER)
        return HANDOFF_UNKNOWN_TRANSACTION;
    int file = -1, ok = handoff_read_object(request, &receipt) == 0
        && handoff_check_interface(receipt, "sample.IReceipt") == 0
        && (file = handoff_read_fd(request)) >= 0
        && (size = read(file, letter, sizeof letter - 1)) >= 0;
    if (ok) {
        struct handoff_parcel *news = handoff_parcel_new();
        letter[size] = 0;
        ok = handoff_write_string(news, letter) == 0
            && handoff_call_oneway(receipt, WAS_READ, news) == 0
            && handoff_write_object(reply, receipt) == 0;
        handoff_parcel_free(news);
    }
    if (file >= 0)
        close(file);
    handoff_object_free(receipt);
    return ok ? HANDOFF_SERVED : -1; /* Its caller is told what failed. */
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static char heard[200];

static int receive(void *context, const struct handoff_caller *caller, uint32_t code,
                   struct handoff_parcel *request, struct handoff_parcel *reply)
{
    (void)context, (void)caller, (void)reply;
    if (code != WAS_READ)
        return HANDOFF_UNKNOWN_TRANSACTION;
    pthread_mutex_lock(&lock);
    if (handoff_read_string(request, heard, sizeof heard) < 0)
        strcpy(heard, "something that is no text");
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
    return HANDOFF_SERVED;
}

static int send_letter(struct handoff_object *postbox, const char *descriptor, const char *text)
{
    struct handoff_object *receipt = handoff_offer(descriptor, receive, NULL), *back = NULL;
    struct handoff_parcel *request = handoff_parcel_new(), *reply = handoff_parcel_new();
    int ends[2], status = 0;
    if (!receipt || pipe(ends) || write(ends[1], text, strlen(text)) < 0)
        return 1;
    close(ends[1]);
    if (handoff_write_object(request, receipt) < 0 || handoff_write_fd(request, ends[0]) < 0
        || handoff_call(postbox, DELIVER, request, reply, 30000) < 0
        || handoff_read_object(reply, &back) < 0) {
        status = fail();
    } else {
        pthread_mutex_lock(&lock);
        while (!*heard)
            pthread_cond_wait(&news, &lock);
        printf("they read: %s; the same receipt: %d\n", heard, handoff_is_same(receipt, back));
        pthread_mutex_unlock(&lock);
    }
    close(ends[0]);
    handoff_object_free(back);
    handoff_object_free(receipt);
    handoff_parcel_free(request);
    handoff_parcel_free(reply);
    return status;
}

int main(int count, char **arguments)
{
    struct handoff_runtime *runtime = handoff_connect(NULL);
    int status = 0;
    if (!runtime)
        return fail();
    if (count == 2 && !strcmp(arguments[1], "serve")) {
        struct handoff_object *service = handoff_offer("sample.IPostbox", serve, NULL);
        if (handoff_register(runtime, "sample.postbox", service, 0) < 0)
            return fail();
        puts("sample.postbox is there");
        fflush(stdout);
        getchar(); /* Until the standard input ends. */
        handoff_object_free(service);
    } else if (count > 2) {
        struct handoff_object *postbox = handoff_find(runtime, "sample.postbox", 30000);
        if (!postbox || handoff_check_interface(postbox, "sample.IPostbox") < 0)
            return fail();
        const char *descriptor = count > 3 ? arguments[3] : "sample.IReceipt";
        status = send_letter(postbox, descriptor, arguments[2]);
        handoff_object_free(postbox);
    }
    handoff_disconnect(runtime);
    return status;
}
