// Echoes values of every type in rows.h, in each direction that a type can go: serves them, or with an argument calls.
#include <android/binder_manager.h>
#include <android/binder_process.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "check.h"
#include "headers.h"

using ::ndk::ScopedAStatus;
using ::ndk::ScopedFileDescriptor;
using ::ndk::SharedRefBase;
using ::ndk::SpAIBinder;
using namespace ::aidl::sample::forty;

namespace {

class Done : public BnDone {
public:
    ScopedAStatus done() override {
        std::lock_guard<std::mutex> held(mLock);
        mCount++;
        mChanged.notify_all();
        return ScopedAStatus::ok();
    }
    void wait() {
        std::unique_lock<std::mutex> held(mLock);
        mChanged.wait(held, [this] { return mCount > 0; });
        mCount--;
    }

private:
    std::mutex mLock;
    std::condition_variable mChanged;
    int mCount = 0;
};

const std::shared_ptr<Done> done = SharedRefBase::make<Done>();

ScopedFileDescriptor file() { return ScopedFileDescriptor(dup(fileno(tmpfile()))); }

// Descriptors are doubled; what holds them cannot be copied by C++ itself.

template <typename T>
T copyOf(const T& value);
template <typename T>
std::optional<T> copyOf(const std::optional<T>& value);

template <typename T>
std::vector<T> copyOf(const std::vector<T>& values) {
    std::vector<T> copy;
    // Items of a vector of bool are not what they look like.
    for (const auto& value : values) copy.push_back(copyOf(static_cast<const T&>(value)));
    return copy;
}

template <typename T>
std::optional<T> copyOf(const std::optional<T>& value) {
    return value ? std::make_optional(copyOf(*value)) : std::nullopt;
}

Leaf leaf(int32_t number, const char* text) {
    Leaf made;
    made.number = number;
    made.text = text;
    return made;
}

#ifdef NEWER
Node node(int depth) {
    Node made;
    made.depth = depth;
    if (depth > 0) made.next = std::make_unique<Node>(node(depth - 1));
    return made;
}

Node copyOf(const Node& value) { return node(value.depth); }

Extended extended(int32_t number) {
    Extended made;
    CHECK(made.number == 4 && made.name == "none" && made.pair == (std::array<int32_t, 2>{1, 2}));
    CHECK(made.tag == Shape::Tag::leaf && toString(made.tag) == "leaf");
    std::optional<Leaf> held;
    CHECK(made.extension.getParcelable(&held) == STATUS_OK && !held);
    made.name = std::nullopt;
    made.tag = Shape::Tag::number;
    CHECK(made.extension.setParcelable(leaf(number, "held")) == STATUS_OK);
    const Extended copy = made;
    CHECK(copy.extension.getParcelable(&held) == STATUS_OK && held == leaf(number, "held"));
    std::optional<Node> other;
    CHECK(copy.extension.getParcelable(&other) == STATUS_OK && !other);
    return made;
}

using Queue = ::aidl::android::hardware::common::fmq::MQDescriptor<
        int32_t, ::aidl::android::hardware::common::fmq::SynchronizedReadWrite>;

Queue queue(int32_t grantors) {
    Queue made;
    for (int32_t at = 0; at < grantors; ++at) made.grantors.emplace_back().offset = at;
    made.handle.fds.push_back(file());
    made.handle.ints = {grantors};
    made.quantum = sizeof(int32_t);
    return made;
}

Queue copyOf(const Queue& value) {
    Queue copy;
    copy.grantors = value.grantors;
    for (const ScopedFileDescriptor& fd : value.handle.fds) copy.handle.fds.emplace_back(dup(fd.get()));
    copy.handle.ints = value.handle.ints;
    copy.quantum = value.quantum;
    return copy;
}

std::vector<ScopedFileDescriptor> files(size_t count) {
    std::vector<ScopedFileDescriptor> made;
    while (made.size() < count) made.push_back(file());
    return made;
}
#else
Tree tree(size_t leaves) {
    Tree made;
    made.root = leaf(-1, "root");
    for (size_t at = 0; at < leaves; ++at) made.leaves.push_back(leaf(static_cast<int32_t>(at), "ß"));
    made.names = std::vector<std::optional<std::string>>{"a", std::nullopt};
    return made;
}

Held held(const char* note) {
    Held made;
    made.binder = done->asBinder();
    made.callback = done;
    made.file = file();
    made.note = note;
    return made;
}


Held copyOf(const Held& value) {
    Held copy;
    copy.binder = value.binder;
    copy.callback = value.callback;
    copy.file = copyOf(value.file);
    copy.note = value.note;
    return copy;
}
#endif

template <typename T>
T copyOf(const T& value) {
    if constexpr (std::is_same_v<T, ScopedFileDescriptor>) {
        return ScopedFileDescriptor(dup(value.get()));
    } else {
        return value;
    }
}

template <typename T>
std::vector<uint8_t> bytesOf(const T& parcelable) {
    ndk::ScopedAParcel parcel(AParcel_create());
    CHECK(parcelable.writeToParcel(parcel.get()) == STATUS_OK);
    std::vector<uint8_t> bytes(static_cast<size_t>(AParcel_getDataSize(parcel.get())));
    CHECK(AParcel_marshal(parcel.get(), bytes.data(), 0, bytes.size()) == STATUS_OK);
    return bytes;
}

template <typename T>
bool same(const T& left, const T& right);
template <typename T>
bool same(const std::optional<T>& left, const std::optional<T>& right);

template <typename T>
bool same(const std::vector<T>& left, const std::vector<T>& right) {
    bool is = left.size() == right.size();
    for (size_t at = 0; is && at < left.size(); ++at) is = same(static_cast<const T&>(left[at]), static_cast<const T&>(right[at]));
    return is;
}

template <typename T>
bool same(const std::optional<T>& left, const std::optional<T>& right) {
    return left && right ? same(*left, *right) : !left && !right;
}

template <typename T, typename = void>
struct is_parcelable : std::false_type {};
template <typename T>
struct is_parcelable<T, std::void_t<decltype(&T::writeToParcel)>> : std::true_type {};

template <typename T>
bool same(const T& left, const T& right) {
    if constexpr (std::is_same_v<T, ScopedFileDescriptor>) {
        struct stat one = {}, other = {};
        if (left.get() < 0 || right.get() < 0) return left.get() == right.get();
        CHECK(fstat(left.get(), &one) == 0 && fstat(right.get(), &other) == 0);
        return one.st_ino == other.st_ino && one.st_dev == other.st_dev;
    } else if constexpr (is_parcelable<T>::value) {
        // Those of Android 10's compiler cannot be compared.
        return bytesOf(left) == bytesOf(right);
    } else {
        return left == right;
    }
}

template <typename T>
using In = std::conditional_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, T, const T&>;

#ifdef NEWER
bool same(const Queue& left, const Queue& right) {
    return left.grantors == right.grantors && same(left.handle.fds, right.handle.fds) &&
           left.handle.ints == right.handle.ints && left.quantum == right.quantum;
}
#else
bool same(const Held& left, const Held& right) {
    return left.binder == right.binder && left.callback == right.callback && same(left.file, right.file) &&
           left.note == right.note;
}
#endif

template <typename Bn, typename T>
class Echo : public Bn {
    ScopedAStatus echo(In<T> value, T* back) override {
        *back = copyOf(value);
        return ScopedAStatus::ok();
    }
    ScopedAStatus later(In<T> value, const std::shared_ptr<IDone>& heard) override {
        std::lock_guard<std::mutex> held(mLock);
        mLast = copyOf(value);
        return heard->done();
    }
    ScopedAStatus last(T* back) override {
        std::lock_guard<std::mutex> held(mLock);
        if (!mLast) return ScopedAStatus::fromServiceSpecificErrorWithMessage(Bn::NUMBER, Bn::NAME);
        *back = copyOf(*mLast);
        mLast.reset();
        return ScopedAStatus::ok();
    }

    std::mutex mLock;
    std::optional<T> mLast;
};

/* Of a type that can go out, too. */
template <typename Bn, typename T>
class EchoOut : public Echo<Bn, T> {
    ScopedAStatus copy(const T& in, T* out, T* both) override {
        *out = std::move(*both);
        *both = copyOf(in);
        return ScopedAStatus::ok();
    }
};

template <typename Service>
void serve(const std::shared_ptr<Service>& service) {
    const std::string name = Service::makeServiceName("default");
    CHECK(AServiceManager_addService(service->asBinder().get(), name.c_str()) == EX_NONE);
}

template <typename I, typename T>
std::shared_ptr<I> call(const char* descriptor, int32_t number, const T& first, const T& second) {
    CHECK(strcmp(I::descriptor, descriptor) == 0 && I::NUMBER == number);
    const std::string name = std::string(I::descriptor) + "/default";
    std::shared_ptr<I> echo = I::fromBinder(SpAIBinder(AServiceManager_waitForService(name.c_str())));
    CHECK(echo != nullptr && echo->isRemote());
    ScopedAStatus none;
    for (const T* sent : {&first, &second}) {
        printf("%s\n", descriptor);
        T back{};
        CHECK(echo->echo(*sent, &back).isOk() && same(*sent, back));
        CHECK((none = echo->last(&back)).getServiceSpecificError() == number);
        CHECK(std::string(none.getMessage()) == I::NAME);
        CHECK(echo->later(*sent, done).isOk());
        done->wait();
        T last{};
        CHECK(echo->last(&last).isOk() && same(*sent, last));
    }
    CHECK(!same(first, second));
    return echo;
}

template <typename I, typename T>
void callOut(const char* descriptor, int32_t number, const T& first, const T& second) {
    std::shared_ptr<I> echo = call<I, T>(descriptor, number, first, second);
    T out{}, both = copyOf(second);
    CHECK(echo->copy(first, &out, &both).isOk());
    CHECK(same(out, second) && same(both, first));
}

#ifdef NEWER
/* Interfaces in types have their classes there. */
struct Count : Watched::IWatcher::BnCount {
    ScopedAStatus next(int32_t number, int32_t* next) override { return *next = number + 1, ScopedAStatus::ok(); }
};

struct Watcher : Watched::BnWatcher {
    ScopedAStatus counted(const std::shared_ptr<ICount>& count, std::shared_ptr<ICount>* same) override {
        return *same = SharedRefBase::make<ICountDelegator>(count), ScopedAStatus::ok();
    }
};

void nested() {
    Watched watched;
    watched.watcher = SharedRefBase::make<Watcher>();
    CHECK(std::string(Watched::IWatcher::ICount::descriptor) == "sample.forty.Watched.IWatcher.ICount");
    auto watcher = Watched::IWatcher::fromBinder(watched.watcher->asBinder());
    std::shared_ptr<Watched::IWatcher::ICount> same;
    CHECK(watcher->counted(SharedRefBase::make<Count>(), &same).isOk());
    int32_t next = 0;
    auto proxy = SharedRefBase::make<Watched::IWatcher::BpCount>(same->asBinder());
    CHECK(proxy->next(4, &next).isOk() && next == 5);
}
#else
void nested() {}
#endif

#include "rows.h"

}  // namespace

int main(int count, char**) {
    alarm(120);
    ABinderProcess_startThreadPool();
    if (count > 1) {
        callAll();
        nested();
        printf("all is well\n");
        return 0;
    }
    serveAll();
    printf("ready\n");
    fflush(stdout);
    ABinderProcess_joinThreadPool();
}
