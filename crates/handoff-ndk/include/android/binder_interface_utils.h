/* C++ bases of generated interfaces: what is shared, what serves, what calls. */
#pragma once

#include <android/binder_auto_utils.h>
#include <android/binder_ibinder.h>
#include <android/binder_ibinder_platform.h>
#include <stdlib.h>

#include <exception>
/* Sources of HALs use <functional> without naming it: Android's C++ library brings it along. */
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ndk {

/* An object that a `std::shared_ptr` owns from the first time that one is asked for. One that has two owners, or none of these,
 * would be freed under who uses it: the process ends, as on Android. */
class SharedRefBase {
public:
    SharedRefBase() = default;
    SharedRefBase(const SharedRefBase&) = delete;
    SharedRefBase& operator=(const SharedRefBase&) = delete;
    virtual ~SharedRefBase() {
        /* What a constructor that throws leaves behind was never given to anybody. In brackets is what tests of Android look for. */
        if (!mIsOwned && std::uncaught_exceptions() == 0) misused("nothing owned it (SharedRefBase: no ref created during lifetime): make it with SharedRefBase::make");
        if (!mOwner.expired()) misused("it has a second owner (Is this object double-owned?): let SharedRefBase::make be the only one");
    }

    std::shared_ptr<SharedRefBase> ref() {
        std::lock_guard<std::mutex> lock(mOwnerLock);
        std::shared_ptr<SharedRefBase> owner = mOwner.lock();
        if (owner == nullptr && !mIsOwned) {
            mIsOwned = true;
            owner = std::shared_ptr<SharedRefBase>(this);
            mOwner = owner;
        }
        return owner;
    }

    template <typename CHILD>
    std::shared_ptr<CHILD> ref() {
        return std::static_pointer_cast<CHILD>(ref());
    }

    template <class T, class... Args>
    static std::shared_ptr<T> make(Args&&... args) {
        return (new T(std::forward<Args>(args)...))->template ref<T>();
    }

private:
    [[noreturn]] static void misused(const char* how) {
        std::cerr << "libbinder_ndk: an object of SharedRefBase is destroyed, and " << how << std::endl;
        abort();
    }

    std::mutex mOwnerLock;
    bool mIsOwned = false;
    std::weak_ptr<SharedRefBase> mOwner;
};

class ICInterface : public SharedRefBase {
public:
    ICInterface() = default;
    ~ICInterface() override = default;

    virtual SpAIBinder asBinder() = 0;
    virtual bool isRemote() = 0;

    /* Writes text about the object for people. */
    virtual binder_status_t dump(int /*fd*/, const char** /*args*/, uint32_t /*numArgs*/) { return STATUS_OK; }

    /* Serves a command that somebody gives by hand. */
    virtual binder_status_t handleShellCommand(int /*in*/, int /*out*/, int /*err*/, const char** /*argv*/,
                                               uint32_t /*argc*/) {
        return STATUS_OK;
    }

    /* The interface that serves an object of this process; null for any other. The pointer is the object's own, as a call that is
     * served holds the object: who uses it for longer copies it. */
    static const std::shared_ptr<ICInterface>& asInterface(AIBinder* binder) {
        void* data = binder == nullptr ? nullptr : AIBinder_getUserData(binder);
        if (data != nullptr) return static_cast<Held*>(data)->interface;
        static const std::shared_ptr<ICInterface> none;
        return none;
    }

    /* A class whose objects keep the interface that `AIBinder_new` is given. */
    static AIBinder_Class* defineClass(const char* interfaceDescriptor, AIBinder_Class_onTransact onTransact) {
        return defineClass(interfaceDescriptor, onTransact, nullptr, 0);
    }
    static AIBinder_Class* defineClass(const char* interfaceDescriptor, AIBinder_Class_onTransact onTransact,
                                       const char** functionNames, size_t functionCount) {
        AIBinder_Class* clazz = AIBinder_Class_define(interfaceDescriptor, onCreate, onDestroy, onTransact);
        if (clazz != nullptr) {
            AIBinder_Class_setOnDump(clazz, onDump);
            AIBinder_Class_setHandleShellCommand(clazz, onShellCommand);
            if (functionNames != nullptr) {
                AIBinder_Class_setTransactionCodeToFunctionNameMap(clazz, functionNames, functionCount);
            }
        }
        return clazz;
    }

private:
    struct Held {
        std::shared_ptr<ICInterface> interface;
    };
    static void* onCreate(void* args) {
        return static_cast<void*>(new Held{static_cast<ICInterface*>(args)->ref<ICInterface>()});
    }
    static void onDestroy(void* userData) { delete static_cast<Held*>(userData); }
    static binder_status_t onDump(AIBinder* binder, int fd, const char** args, uint32_t numArgs) {
        std::shared_ptr<ICInterface> interface = asInterface(binder);
        return interface == nullptr ? static_cast<binder_status_t>(STATUS_DEAD_OBJECT) : interface->dump(fd, args, numArgs);
    }
    static binder_status_t onShellCommand(AIBinder* binder, int in, int out, int err, const char** argv, uint32_t argc) {
        std::shared_ptr<ICInterface> interface = asInterface(binder);
        return interface == nullptr ? static_cast<binder_status_t>(STATUS_DEAD_OBJECT)
                                    : interface->handleShellCommand(in, out, err, argv, argc);
    }
};

/* What serves an interface: one object for as long as somebody has a reference to it. */
template <typename INTERFACE>
class BnCInterface : public INTERFACE {
public:
    BnCInterface() = default;
    ~BnCInterface() override = default;

    SpAIBinder asBinder() override {
        std::lock_guard<std::mutex> lock(mBinderLock);
        SpAIBinder binder = mBinder.promote();
        if (binder.get() == nullptr) {
            binder = createBinder();
            mBinder = ScopedAIBinder_Weak(AIBinder_Weak_new(binder.get()));
        }
        return binder;
    }
    bool isRemote() override { return false; }

    /* The name of an instance, as services of stable interfaces are registered. */
    static std::string makeServiceName(std::string_view instance) {
        return std::string(INTERFACE::descriptor).append("/").append(instance);
    }

protected:
    virtual SpAIBinder createBinder() = 0;

private:
    std::mutex mBinderLock;
    ScopedAIBinder_Weak mBinder;
};

/* What calls an interface. */
template <typename INTERFACE>
class BpCInterface : public INTERFACE {
public:
    explicit BpCInterface(const SpAIBinder& binder) : mBinder(binder) {}
    ~BpCInterface() override = default;

    SpAIBinder asBinder() override { return mBinder; }
    const SpAIBinder& asBinderReference() { return mBinder; }
    bool isRemote() override { return AIBinder_isRemote(mBinder.get()); }
    binder_status_t dump(int fd, const char** args, uint32_t numArgs) override {
        return AIBinder_dump(mBinder.get(), fd, args, numArgs);
    }

private:
    SpAIBinder mBinder;
};

}  // namespace ndk
