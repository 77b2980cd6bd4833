"""A service in Python and its client: `greeter.py serve` and `greeter.py greet NAME`.

The names and numbers are those of examples/src/bin/greeter_by_hand.rs, so that either side may be Rust.
"""

import sys
import threading

import handoff

HELLO, GREETED = 1, 2


class Greeter:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.greeted = 0

    def serve(self, caller: handoff.Caller, code: int, request: handoff.Parcel) -> handoff.Parcel:
        """Several threads may call it at once."""
        reply = handoff.Parcel()
        if code == HELLO:
            name = request.read_string()
            if not name:
                raise handoff.ServiceError(handoff.ExceptionCode.ILLEGAL_ARGUMENT, "nobody has an empty name")
            with self.lock:
                self.greeted += 1
            reply.write_string(f"Hello {name} (user {caller.uid})")
        elif code == GREETED:
            reply.write_int(self.greeted)
        else:
            raise NotImplementedError
        return reply


def greet(greeter: handoff.Remote, name: str) -> None:
    request = handoff.Parcel()
    request.write_string(name)
    print(greeter.call(HELLO, request, timeout=5).read_string())
    print(greeter.call(GREETED).read_int(), "greeted so far")


def main() -> None:
    with handoff.connect() as runtime:
        if sys.argv[1:] == ["serve"]:
            runtime.serve("sample.greeter", "sample.IGreeter", Greeter().serve)
            print("sample.greeter is there", flush=True)
            sys.stdin.read()
        elif len(sys.argv) == 3 and sys.argv[1] == "greet":
            try:
                greet(runtime.find("sample.greeter", timeout=5), sys.argv[2])
            except handoff.ServiceError as refused:
                sys.exit(str(refused))
        else:
            sys.exit("usage: greeter.py serve | greeter.py greet NAME")


if __name__ == "__main__":
    main()
