// Sends values of every type to a service that reads them in Rust and sends what it wrote itself.
#include <aidl/sample/everything/BnCallback.h>
#include <aidl/sample/everything/BnEverything.h>
#include <android/binder_manager.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <limits>
#include <mutex>
#include <random>

#include "check.h"

using namespace ::aidl::sample::everything;
using ::ndk::ScopedAStatus;

namespace {

std::mt19937 chance(20);

int32_t number() {
    static const int32_t edges[] = {0, 1, -1, INT32_MAX, INT32_MIN};
    uint32_t drawn = chance();
    return drawn % 4 == 0 ? edges[drawn / 4 % 5] : static_cast<int32_t>(drawn);
}

std::string text() {
    static const char* parts[] = {"", "a", "ß", "𝄞", "\n", "zero", "中文"};
    std::string made;
    for (uint32_t left = chance() % 5; left > 0; --left) made += parts[chance() % 7];
    return made;
}

template <typename Make>
auto several(Make make) {
    std::vector<decltype(make())> made;
    for (uint32_t left = chance() % 4; left > 0; --left) made.push_back(make());
    return made;
}

template <typename Make>
auto perhaps(Make make) {
    return chance() % 2 == 0 ? std::optional<decltype(make())>() : std::optional<decltype(make())>(make());
}

Point point() {
    Point made;
    made.x = number();
    made.y = number();
    return made;
}

Shape shape() {
    switch (chance() % 4) {
        case 0: return Shape::make<Shape::radius>(number());
        case 1: return Shape::make<Shape::corner>(point());
        case 2: return Shape::make<Shape::name>(perhaps(text));
        default: return Shape::make<Shape::pixels>(several([] { return static_cast<uint8_t>(chance()); }));
    }
}

Color color() { return static_cast<Color>(static_cast<int8_t>(chance())); }

Record::Inner inner(int depth) {
    Record::Inner made;
    made.kind = chance() % 2 == 0 ? Record::Kind::NONE : Record::Kind::SOME;
    if (depth > 0) {
        made.more.emplace();
        made.more->push_back(inner(depth - 1));
        made.more->push_back(std::nullopt);
    }
    return made;
}

Record record(int depth) {
    Record made;
    made.flag = chance() % 2 == 0;
    made.small = static_cast<int8_t>(chance());
    made.letter = static_cast<char16_t>(chance());
    made.number = number();
    made.big = static_cast<int64_t>(chance()) << 31;
    made.half = static_cast<float>(number());
    made.pi = static_cast<double>(number()) / 3;
    made.text = text();
    made.utf8 = text();
    made.nothing = perhaps(text);
    made.color = color();
    made.mode = chance() % 2 == 0 ? Mode::FAR : Mode::SLOW;
    made.colors = several(color);
    made.bytes = several([] { return static_cast<uint8_t>(chance()); });
    made.numbers = several(number);
    made.texts = several(text);
    made.maybe = perhaps([] { return several([] { return perhaps(text); }); });
    made.list = several(text);
    made.point = point();
    made.other = perhaps(point);
    made.points = several(point);
    for (auto& row : made.matrix) {
        for (int32_t& one : row) one = number();
    }
    for (uint8_t& one : made.digest) one = static_cast<uint8_t>(chance());
    made.shape = shape();
    made.inner = inner(2);
    if (depth > 0) made.next = std::make_unique<Record>(record(depth - 1));
    return made;
}

/* A parcelable of a type that the interface does not name, there and back, and what a peer may send in its place. */
void checkHolder() {
    ndk::AParcelableHolder holder(ndk::STABILITY_LOCAL), strict(ndk::STABILITY_VINTF);
    std::optional<Point> kept;
    std::optional<Shape> other;
    CHECK(holder.getParcelable(&kept) == STATUS_OK && !kept);
    CHECK(strict.setParcelable(Point()) == STATUS_BAD_VALUE);
    Point sent = point();
    CHECK(holder.setParcelable(sent) == STATUS_OK);

    ndk::ScopedAParcel parcel(AParcel_create());
    CHECK(ndk::AParcel_writeData(parcel.get(), holder) == STATUS_OK);
    CHECK(AParcel_writeInt32(parcel.get(), 77) == STATUS_OK);
    const int32_t size = AParcel_getDataSize(parcel.get());
    CHECK(AParcel_setDataPosition(parcel.get(), 0) == STATUS_OK);
    ndk::AParcelableHolder read(ndk::STABILITY_LOCAL);
    CHECK(ndk::AParcel_readData(parcel.get(), &read) == STATUS_OK);
    int32_t behind = 0;
    CHECK(AParcel_readInt32(parcel.get(), &behind) == STATUS_OK && behind == 77);
    CHECK(read.getParcelable(&other) == STATUS_OK && !other);
    ndk::AParcelableHolder copy = read;
    CHECK(copy.getParcelable(&kept) == STATUS_OK && kept == sent);
    CHECK(copy != read && copy == copy && ::android::internal::ToString(copy).empty());
    copy.reset();
    CHECK(copy.getParcelable(&kept) == STATUS_OK && !kept);

    CHECK(AParcel_setDataPosition(parcel.get(), 0) == STATUS_OK);
    CHECK(ndk::AParcel_readData(parcel.get(), &strict) == STATUS_BAD_VALUE);
    // The length stands behind "not null" and the stability.
    for (int32_t length : {-1, size, INT32_MAX, INT32_MIN}) {
        CHECK(AParcel_setDataPosition(parcel.get(), 8) == STATUS_OK);
        CHECK(AParcel_writeInt32(parcel.get(), length) == STATUS_OK && AParcel_setDataPosition(parcel.get(), 0) == STATUS_OK);
        CHECK(ndk::AParcel_readData(parcel.get(), &read) == STATUS_BAD_VALUE);
        CHECK(read.getParcelable(&kept) == STATUS_OK && !kept);
    }
    // Cut in the middle of what is held.
    CHECK(AParcel_setDataPosition(parcel.get(), 8) == STATUS_OK && AParcel_writeInt32(parcel.get(), 8) == STATUS_OK);
    CHECK(AParcel_setDataPosition(parcel.get(), 0) == STATUS_OK);
    CHECK(ndk::AParcel_readData(parcel.get(), &read) == STATUS_OK && read.getParcelable(&kept) != STATUS_OK && !kept);
}

/* Records of all kinds come back. */
void checkEcho(const std::shared_ptr<IEverything>& everything) {
    for (int at = 0; at < 200; ++at) {
        Record sent = record(at % 4), back;
        ScopedAStatus status = everything->echo(sent, &back);
        if (!status.isOk()) fprintf(stderr, "%s\n", status.getDescription().c_str());
        CHECK(status.isOk());
        // Pointers are equal if they are one: what they point to is compared.
        const Record* left = &sent;
        Record* right = &back;
        for (; left->next != nullptr; left = left->next.get(), right = right->next.get()) CHECK(right->next != nullptr);
        CHECK(right->next == nullptr && *left == *right);
    }
}

std::shared_ptr<IEverything> find(const char* name) {
    std::shared_ptr<IEverything> found = IEverything::fromBinder(ndk::SpAIBinder(AServiceManager_waitForService(name)));
    CHECK(found != nullptr && found->isRemote());
    return found;
}

struct Event {
    std::mutex lock;
    std::condition_variable changed;
    int count = 0;

    void set() {
        std::lock_guard<std::mutex> held(lock);
        count++;
        changed.notify_all();
    }
    void wait(int until) {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [&] { return count >= until; });
    }
};

class Callback : public BnCallback {
public:
    explicit Callback(Event* event) : mEvent(event) {}
    ScopedAStatus happened(int32_t what, const std::string& text) override {
        CHECK(what == mEvent->count && text == "as asked");
        mEvent->set();
        return ScopedAStatus::ok();
    }

private:
    Event* mEvent;
};

/* So many bytes, of which neighbours differ. */
std::vector<uint8_t> numbered(size_t count) {
    std::vector<uint8_t> bytes(count);
    for (size_t at = 0; at < count; at++) bytes[at] = static_cast<uint8_t>(at % 251);
    return bytes;
}

/* Reads bytes into vectors wherever they lie in their pages, also a little further than the parcel does in its own. */
void readAnywhere() {
    const std::vector<uint8_t> bytes = numbered(5000);
    ndk::ScopedAParcel parcel(AParcel_create());
    CHECK(ndk::AParcel_writeVector(parcel.get(), bytes) == STATUS_OK);
    std::vector<std::vector<uint8_t>> read(256);
    for (std::vector<uint8_t>& one : read) {
        CHECK(AParcel_setDataPosition(parcel.get(), 0) == STATUS_OK);
        CHECK(ndk::AParcel_readVector(parcel.get(), &one) == STATUS_OK && one == bytes);
        CHECK(AParcel_getDataPosition(parcel.get()) == AParcel_getDataSize(parcel.get()));
    }
}

/* Calls every method of a service in another language, and hears of its death. */
void callPeer(const char* name) {
    std::shared_ptr<IEverything> peer = find(name);
    checkEcho(peer);
    int32_t number = 0;
    CHECK(peer->add(2, 3, &number).isOk() && number == 5);
    CHECK(peer->type(5, 3, &number).isOk() && number == 2);
    std::optional<std::string> text;
    CHECK(peer->maybe("ünï😀", true, &text).isOk() && text == "ünï😀");
    CHECK(peer->maybe("x", false, &text).isOk() && !text);
    CHECK(peer->maybe(std::nullopt, true, &text).isOk() && !text);
    std::vector<std::string> texts;
    CHECK(peer->reverse({"a", ""}, &texts).isOk() && texts == (std::vector<std::string>{"", "a"}));
    std::vector<int32_t> filled(5);
    CHECK(peer->fill(&filled, 7).isOk() && filled == std::vector<int32_t>(5, 7));
    std::vector<uint8_t> bytes = {1, 2};
    Point point;
    CHECK(peer->grow(&bytes, &point).isOk() && bytes == (std::vector<uint8_t>{1, 2, 255}));
    CHECK(point.x == -3 && point.y == 3);
    // Short and long ones, into new memory and into memory that is used again.
    for (size_t count : {0, 1, 127, 1983, 1984, 4095, 4096, 5000, 65536, 3}) {
        bytes = numbered(count);
        std::vector<uint8_t> grown = bytes;
        for (int again = 0; again < 2; again++) {
            CHECK(peer->grow(&grown, &point).isOk() && grown.size() == count + 1 + static_cast<size_t>(again));
            CHECK(std::equal(bytes.begin(), bytes.end(), grown.begin()) && grown.back() == 255);
        }
    }
    std::optional<Record> made;
    CHECK(peer->countAndSplit({"a", "b"}, &texts, &made, &number).isOk() && number == 2);
    CHECK(texts == std::vector<std::string>{"a"} && made && *made == Record());
    Color color = Color::RED;
    CHECK(peer->next(Color::GREEN, &color).isOk() && color == Color::BLUE);
    std::vector<Color> colors;
    CHECK(peer->all(&colors).isOk() && colors == (std::vector<Color>{Color::RED, Color::GREEN, Color::BLUE}));
    for (int at = 0; at < 20; ++at) {
        Shape sent = shape(), back;
        CHECK(peer->shape(sent, &back).isOk() && sent == back);
    }

    ndk::SpAIBinder object;
    CHECK(peer->itself(&object).isOk() && IEverything::fromBinder(object)->add(1, 1, &number).isOk() && number == 2);
    CHECK(peer->nobody(nullptr, &object).isOk() && object.get() == nullptr);
    CHECK(peer->nobody(peer->asBinder(), &object).isOk() && object == peer->asBinder());
    Event happened;
    std::shared_ptr<Callback> callback = ndk::SharedRefBase::make<Callback>(&happened);
    for (int at = 0; at < 30; ++at) {
        CHECK(peer->call(callback, at).isOk());
        happened.wait(at + 1);
    }
    CHECK(ICallback::fromBinder(peer->asBinder()) == nullptr);
    ndk::ScopedFileDescriptor file;
    char read[11] = {};
    CHECK(peer->open("made there", &file).isOk() && pread(file.get(), read, 10, 0) == 10);
    CHECK(std::string(read) == "made there");
    int64_t size = 0;
    CHECK(peer->size(file, &size).isOk() && size == 10);
    ScopedAStatus refused = peer->fail(17);
    CHECK(refused.getServiceSpecificError() == 17 && std::string(refused.getMessage()) == "as asked");

    Event died;
    ndk::ScopedAIBinder_DeathRecipient recipient(
            AIBinder_DeathRecipient_new([](void* cookie) { static_cast<Event*>(cookie)->set(); }));
    CHECK(AIBinder_linkToDeath(peer->asBinder().get(), recipient.get(), &died) == STATUS_OK);
    printf("ready\n");
    fflush(stdout);
    died.wait(1);
    CHECK(peer->add(1, 2, &number).getStatus() == STATUS_DEAD_OBJECT);
}

/* Calls a service that answers with what is no answer: each call fails, or gives some value. */
void callLiar() {
    std::shared_ptr<IEverything> liar = find("liar");
    int refused = 0;
    for (int at = 0; at < 600; ++at) {
        Record back;
        refused += !liar->echo(record(at % 4), &back).isOk();
        Shape turned;
        refused += !liar->shape(shape(), &turned).isOk();
        std::optional<std::vector<std::optional<Point>>> points, returned;
        points = several([] { return perhaps(point); });
        refused += !liar->points(points, &returned).isOk();
    }
    CHECK(refused > 300);
}

/* Nulls take four bytes each in a parcel, and as much memory as a record: a parcel has a budget. */
void checkRoom() {
    const int32_t many = static_cast<int32_t>((16 << 20) / sizeof(std::optional<Record>));
    auto read = [](int32_t count, int times) {
        ndk::ScopedAParcel parcel(AParcel_create());
        for (int array = 0; array < times; ++array) {
            CHECK(AParcel_writeInt32(parcel.get(), count) == STATUS_OK);
            for (int32_t at = 0; at < count; ++at) CHECK(AParcel_writeInt32(parcel.get(), 0) == STATUS_OK);
        }
        CHECK(AParcel_setDataPosition(parcel.get(), 0) == STATUS_OK);
        binder_status_t status = STATUS_OK;
        for (int array = 0; array < times && status == STATUS_OK; ++array) {
            std::optional<std::vector<std::optional<Record>>> records;
            status = ndk::AParcel_readVector(parcel.get(), &records);
        }
        return status;
    };
    CHECK(read(many, 1) == STATUS_OK);
    CHECK(read(many, 3) == STATUS_NO_MEMORY && read(8 * many, 1) == STATUS_NO_MEMORY);
}

}  // namespace

int main(int count, char** arguments) {
    alarm(300);
    readAnywhere();
    if (count > 1) {
        if (std::string(arguments[1]) == "liar") {
            callLiar();
            printf("all is well\n");
        } else {
            callPeer(arguments[1]);
        }
        return 0;
    }
    // What the files say of constants and defaults.
    CHECK(IEverything::ANSWER == 42 && std::string(IEverything::GREETING) == "hello");
    CHECK(std::string(Record::NAME) == "record" && Record::SIZES[2] == 3 && Record::MASK == 0xffffffffffL);
    Record defaults;
    CHECK(defaults.flag && defaults.small == -1 && defaults.letter == u'A' && defaults.number == 7);
    CHECK(defaults.big == 1L << 33 && defaults.half == 0.5f && defaults.pi == 3.25 && defaults.text == "hi \"you\"");
    CHECK(defaults.color == Color::GREEN && defaults.mode == Mode::FAST && defaults.numbers.size() == 3);
    CHECK(defaults.point.x == -3 && defaults.digest[39] == 0 && defaults.next == nullptr);
    CHECK(defaults.shape.getTag() == Shape::Tag::radius && defaults.shape.get<Shape::radius>() == 7);
    CHECK(toString(Color::BLUE) == "BLUE" && toString(Record::Kind::SOME) == "SOME");
    CHECK(Point().toString() == "Point{x: -3, y: 0}");
    CHECK(std::distance(ndk::enum_range<Mode>().begin(), ndk::enum_range<Mode>().end()) == 4);

    Shape square = Shape::make<Shape::corner>(Point());
    CHECK(square.toString() == "Shape{corner: Point{x: -3, y: 0}}" && toString(square.getTag()) == "corner");
    CHECK(std::distance(ndk::enum_range<Shape::Tag>().begin(), ndk::enum_range<Shape::Tag>().end()) == 4);
    std::string shown = defaults.toString();
    for (const char* part : {"letter: A", "color: GREEN", "nothing: (null)", "numbers: [", "shape: Shape{radius: 7}"}) {
        CHECK(shown.find(part) != std::string::npos);
    }
    checkHolder();
    checkRoom();

    std::shared_ptr<IEverything> everything = find("everything");
    checkEcho(everything);

    std::optional<std::vector<std::optional<Point>>> points, returned;
    CHECK(everything->points(points, &returned).isOk() && !returned);
    points = std::vector<std::optional<Point>>{point(), std::nullopt};
    CHECK(everything->points(points, &returned).isOk() && returned == points);
    Shape turned;
    CHECK(everything->shape(shape(), &turned).isOk());
    std::vector<int32_t> filled(4);
    CHECK(everything->fill(&filled, 9).isOk() && filled == (std::vector<int32_t>{9, 9, 9, 9}));
    std::array<int32_t, 3> numbers = {1, 2, 3}, reversed;
    CHECK(everything->turn(numbers, &reversed).isOk() && reversed == (std::array<int32_t, 3>{3, 2, 1}));
    int32_t version = 0;
    std::string hash;
    CHECK(everything->getInterfaceVersion(&version).isOk() && version == 3);
    CHECK(everything->getInterfaceHash(&hash).isOk() && hash.size() == 40);
    printf("all is well\n");
}
