/* One process of a few: a service that is polled, lazy services, who calls them, and mistakes that end a process. */
#include <android/binder_ibinder_platform.h>
#include <android/binder_interface_utils.h>
#include <android/binder_manager.h>
#include <android/binder_process.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

static const std::thread::id mainThread = std::this_thread::get_id();

static void* onCreate(void* args) { return args; }
static void onDestroy(void*) {}

enum : transaction_code_t { WHO = FIRST_CALL_TRANSACTION, PERSIST, CALL_BACK, BACK_AND_FORTH, ASK };

static binder_status_t onTransact(AIBinder*, transaction_code_t code, const AParcel* in, AParcel* out);

/* Says the same in a dump. */
static binder_status_t onDump(AIBinder*, int fd, const char**, uint32_t) {
    const char* where = std::this_thread::get_id() == mainThread ? "main" : "pool";
    dprintf(fd, "%s for %d", where, AIBinder_getCallingPid());
    return STATUS_OK;
}

/* `who` says the same; `echo` copies its input; the status of all else is the number of arguments. */
static binder_status_t onCommand(AIBinder* binder, int in, int out, int err, const char** argv, uint32_t argc) {
    CHECK(AIBinder_getUserData(binder) == nullptr);
    if (argc == 1 && strcmp(argv[0], "who") == 0) return onDump(binder, out, argv, argc);
    if (argc == 1 && strcmp(argv[0], "echo") == 0) {
        char buffer[64];
        for (ssize_t len; (len = read(in, buffer, sizeof buffer)) > 0;) CHECK(write(out, buffer, len) == len);
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < argc; i++) dprintf(err, "[%s]", argv[i]);
    return argc;
}

static AIBinder_Class* defined() {
    AIBinder_Class* made = AIBinder_Class_define("sample.IProcess", onCreate, onDestroy, onTransact);
    AIBinder_Class_setOnDump(made, onDump);
    AIBinder_Class_setHandleShellCommand(made, onCommand);
    AIBinder_Class_setHandleShellCommand(made, nullptr);
    return made;
}
static AIBinder_Class* const clazz = defined();
static AIBinder_Class* const twin = defined();

static ndk::SpAIBinder made() { return ndk::SpAIBinder(AIBinder_new(clazz, nullptr)); }

static ndk::SpAIBinder found(const char* name) {
    ndk::SpAIBinder binder(AServiceManager_waitForService(name));
    CHECK(AIBinder_associateClass(binder.get(), clazz));
    return binder;
}

static ndk::ScopedAParcel call(const ndk::SpAIBinder& binder, transaction_code_t code, bool flag = false) {
    ndk::ScopedAParcel in, out;
    CHECK(AIBinder_prepareTransaction(binder.get(), in.getR()) == STATUS_OK);
    CHECK(AParcel_writeBool(in.get(), flag) == STATUS_OK);
    CHECK(AIBinder_transact(binder.get(), code, in.getR(), out.getR(), 0) == STATUS_OK);
    return out;
}

/* Asks a service whose main thread serves. */
static void who(const ndk::SpAIBinder& service) {
    ndk::ScopedAParcel out = call(service, WHO);
    int32_t pid;
    bool isMain;
    CHECK(AParcel_readInt32(out.get(), &pid) == STATUS_OK && pid == getpid());
    CHECK(AParcel_readBool(out.get(), &isMain) == STATUS_OK && isMain);
}

/* Says who calls, and whether the main thread serves. */
static binder_status_t onTransact(AIBinder*, transaction_code_t code, const AParcel* in, AParcel* out) {
    switch (code) {
        case WHO:
            CHECK(AIBinder_isHandlingTransaction());
            CHECK(AParcel_writeInt32(out, AIBinder_getCallingPid()) == STATUS_OK);
            return AParcel_writeBool(out, std::this_thread::get_id() == mainThread);
        case PERSIST: {
            bool persist;
            CHECK(AParcel_readBool(in, &persist) == STATUS_OK);
            AServiceManager_forceLazyServicesPersist(persist);
            return STATUS_OK;
        }
        case CALL_BACK: {
            AIBinder* back = nullptr;
            CHECK(AParcel_readStrongBinder(in, &back) == STATUS_OK);
            ndk::SpAIBinder held(back);
            return AIBinder_ping(back);
        }
        case BACK_AND_FORTH: {
            AIBinder* back = nullptr;
            CHECK(AParcel_readStrongBinder(in, &back) == STATUS_OK);
            ndk::SpAIBinder held(back);
            CHECK(AIBinder_associateClass(back, clazz));
            const pid_t caller = AIBinder_getCallingPid();
            call(held, ASK);
            /* What was served meanwhile has changed nothing here. */
            CHECK(caller != getpid() && AIBinder_getCallingPid() == caller);
            return STATUS_OK;
        }
        case ASK:
            /* The thread that polls waits for this answer: only there can it be told. */
            who(found("polled"));
            return STATUS_OK;
    }
    return STATUS_UNKNOWN_TRANSACTION;
}

[[noreturn]] static void ready() {
    puts("ready");
    fflush(stdout);
    ABinderProcess_joinThreadPool();
    abort();
}

static void polled() {
    int fd = -1;
    CHECK(ABinderProcess_handlePolledCommands() == STATUS_INVALID_OPERATION);
    CHECK(ABinderProcess_setupPolling(nullptr) == STATUS_UNEXPECTED_NULL);
    CHECK(ABinderProcess_setupPolling(&fd) == STATUS_OK && fd >= 0);
    ndk::SpAIBinder service = made();
    CHECK(AServiceManager_addService(service.get(), "polled") == EX_NONE);
    pollfd events = {fd, POLLIN, 0};
    CHECK(poll(&events, 1, 0) == 0);
    puts("ready");
    fflush(stdout);
    for (;;) {
        CHECK(poll(&events, 1, -1) == 1);
        CHECK(ABinderProcess_handlePolledCommands() == STATUS_OK);
    }
}

static void callsPolled() {
    ndk::SpAIBinder service = found("polled");
    /* Several at once: one thread serves them all. */
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; i++) {
        callers.emplace_back([&] {
            for (int j = 0; j < 25; j++) who(service);
        });
    }
    for (std::thread& caller : callers) caller.join();
    char dumped[64] = {};
    ndk::ScopedFileDescriptor file(memfd_create("dump", MFD_CLOEXEC));
    CHECK(AIBinder_dump(service.get(), file.get(), nullptr, 0) == STATUS_OK);
    CHECK(pread(file.get(), dumped, sizeof dumped - 1, 0) > 0);
    CHECK(dumped == "main for " + std::to_string(getpid()));
    /* The thread that serves may call, and a process serves its own calls where they are made. */
    ndk::SpAIBinder own = made();
    for (transaction_code_t code : {CALL_BACK, BACK_AND_FORTH}) {
        ndk::ScopedAParcel in, out;
        CHECK(AIBinder_prepareTransaction(service.get(), in.getR()) == STATUS_OK);
        CHECK(AParcel_writeStrongBinder(in.get(), own.get()) == STATUS_OK);
        CHECK(AIBinder_transact(service.get(), code, in.getR(), out.getR(), 0) == STATUS_OK);
    }
}

static bool onActive(bool hasClients, void* context) {
    CHECK(strcmp(static_cast<const char*>(context), "context") == 0);
    if (hasClients) return true;
    /* Back and forth once: names may be taken back for a while. */
    CHECK(AServiceManager_tryUnregister());
    CHECK(ndk::SpAIBinder(AServiceManager_checkService("lazy")).get() == nullptr);
    AServiceManager_reRegister();
    CHECK(ndk::SpAIBinder(AServiceManager_checkService("lazy")).get() != nullptr);
    CHECK(AServiceManager_tryUnregister());
    exit(3);
}

static void lazy(bool decides) {
    static char context[] = "context";
    if (decides) AServiceManager_setActiveServicesCallback(onActive, context);
    CHECK(AServiceManager_registerLazyService(nullptr, "lazy") == STATUS_UNEXPECTED_NULL);
    ndk::SpAIBinder service = made(), other = made();
    CHECK(AServiceManager_registerLazyService(service.get(), "lazy") == STATUS_OK);
    CHECK(AServiceManager_registerLazyService(other.get(), "lazy.other") == STATUS_OK);
    ready();
}

/* Takes its names back, and registers them again when it is told to. */
static void withdraws() {
    ndk::SpAIBinder service = made(), other = made();
    CHECK(AServiceManager_registerLazyService(service.get(), "lazy") == STATUS_OK);
    CHECK(AServiceManager_registerLazyService(other.get(), "lazy.other") == STATUS_OK);
    CHECK(AServiceManager_tryUnregister());
    puts("ready");
    fflush(stdout);
    CHECK(getchar() == EOF);
    AServiceManager_reRegister();
    ABinderProcess_joinThreadPool();
}

/* Holds a service until it is told to end; then says whether it is still there. */
static void holds(bool persist) {
    ndk::SpAIBinder service = found("lazy");
    if (persist) call(service, PERSIST, true);
    puts("ready");
    fflush(stdout);
    CHECK(getchar() == EOF);
    CHECK(AIBinder_ping(service.get()) == STATUS_OK);
}

static void lets() { call(found("lazy"), PERSIST, false); }

static std::mutex heardLock;
static std::condition_variable heardMore;
static std::vector<ndk::SpAIBinder> heard;

/* Who hears of a registration owns the reference that comes with it. */
static void hears() {
    auto* news = AServiceManager_registerForServiceNotifications(
            "heard", [](const char*, AIBinder* registered, void*) {
                std::lock_guard<std::mutex> lock(heardLock);
                heard.emplace_back(registered);
                heardMore.notify_one();
            }, nullptr);
    CHECK(news != nullptr);
    ndk::SpAIBinder service = made();
    CHECK(AServiceManager_addService(service.get(), "heard") == EX_NONE);
    {
        std::unique_lock<std::mutex> lock(heardLock);
        heardMore.wait(lock, [] { return !heard.empty(); });
    }
    /* Waits for one that runs: nobody else holds anything for a moment. */
    AServiceManager_NotificationRegistration_delete(news);
    const int32_t held = AIBinder_debugGetRefCount(service.get());
    AIBinder_incStrong(service.get());
    CHECK(heard[0] == service);
    heard.clear();
    CHECK(AIBinder_debugGetRefCount(service.get()) == held);
    AIBinder_decStrong(service.get());
    /* One reference is ours, and one that of who may call it. */
    CHECK(held == 3);
    CHECK(AIBinder_ping(service.get()) == STATUS_OK);
    puts("all is well");
}

/* The last object that a process adds under a name has it; adding it again changes nothing. */
static void replaces() {
    ndk::SpAIBinder first = made(), second = made();
    CHECK(AServiceManager_addService(first.get(), "replaced") == EX_NONE);
    CHECK(AServiceManager_addService(second.get(), "replaced") == EX_NONE);
    CHECK(ndk::SpAIBinder(AServiceManager_checkService("replaced")) == second);
    CHECK(AServiceManager_addService(second.get(), "replaced") == EX_NONE);
    CHECK(ndk::SpAIBinder(AServiceManager_checkService("replaced")) == second);
    /* Another process's name is not taken. */
    CHECK(AServiceManager_addService(first.get(), "others") == EX_ILLEGAL_STATE);
    puts("all is well");
}

static void mistakes(const std::string& what) {
    ndk::SpAIBinder own = made();
    CHECK(AServiceManager_addService(nullptr, "name") == EX_ILLEGAL_ARGUMENT);
    CHECK(AServiceManager_addService(own.get(), nullptr) == EX_ILLEGAL_ARGUMENT);
    CHECK(AServiceManager_addService(own.get(), "no name") == EX_ILLEGAL_ARGUMENT);
    AServiceManager_AddServiceFlag flag = AServiceManager_AddServiceFlag::ADD_SERVICE_ALLOW_ISOLATED;
    CHECK(AServiceManager_addServiceWithFlags(own.get(), "isolated", flag) == EX_NONE);
    CHECK(AServiceManager_addServiceWithFlags(own.get(), "flags", AServiceManager_AddServiceFlag(2)) == EX_ILLEGAL_ARGUMENT);
    /* Of an object of this process, the data are those of one class; another's may have one in each library. */
    CHECK(!AIBinder_associateClass(own.get(), twin));
    ndk::SpAIBinder manager(AServiceManager_waitForService("manager"));
    CHECK(!AIBinder_associateClass(manager.get(), clazz));
    AIBinder_Class* one = AIBinder_Class_define("android.os.IServiceManager", onCreate, onDestroy, onTransact);
    AIBinder_Class* two = AIBinder_Class_define("android.os.IServiceManager", onCreate, onDestroy, onTransact);
    CHECK(AIBinder_associateClass(manager.get(), one) && AIBinder_associateClass(manager.get(), two));
    CHECK(AIBinder_getClass(manager.get()) == one);
    AIBinder_setInheritRt(own.get(), true);
    struct Shared : ndk::SharedRefBase {};
    if (what == "inherits") AIBinder_setInheritRt(manager.get(), true);
    if (what == "asks") AIBinder_setRequestingSid(manager.get(), true);
    if (what == "schedules") AIBinder_setMinSchedulerPolicy(manager.get(), 0, 0);
    if (what == "nobody owns") Shared();
    if (what == "two own") {
        auto shared = ndk::SharedRefBase::make<Shared>();
        std::shared_ptr<Shared>(shared.get());
    }
    struct Throws : ndk::SharedRefBase {
        Throws() { throw 1; }
    };
    try {
        ndk::SharedRefBase::make<Throws>();
    } catch (int) {
        puts("all is well");
    }
}

int main(int, char** args) {
    const std::string what = args[1];
    if (what == "polled") polled();
    if (what == "calls polled") callsPolled();
    if (what == "lazy") lazy(false);
    if (what == "lazy that decides") lazy(true);
    if (what == "withdraws") withdraws();
    if (what == "holds") holds(false);
    if (what == "holds for ever") holds(true);
    if (what == "lets") lets();
    if (what == "hears") hears();
    if (what == "replaces") replaces();
    if (what == "mistakes") mistakes(args[2]);
}
