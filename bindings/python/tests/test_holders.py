"""Parcelables of types that an interface does not know, and bundles, to a service in Rust."""

import pytest

import handoff
from handoff.aidl import ParcelableHolder, PersistableBundle
from holders import Attached, Choice, Extended, Extra, HoldsProxy


@pytest.fixture
def service():
    with handoff.connect() as runtime:
        yield HoldsProxy.find(runtime, "rust.holds", timeout=60)


def extra(depth: int) -> Extra:
    made = Extra(text=f"ünï😀 {depth}", numbers=[depth, -(1 << 63)])
    if depth > 0:
        made.more.set(extra(depth - 1))
    return made


def same(one: Extra, other: Extra) -> None:
    assert (one.text, one.numbers) == (other.text, other.numbers)
    more, others = one.more.get(Extra), other.more.get(Extra)
    assert (more is None) == (others is None)
    if more is not None and others is not None:
        same(more, others)


def test_a_holder_holds_what_was_put_in_and_nothing_else(service):
    back = service.echo(Extended(number=7))
    assert back.number == 7 and not back.extension and back.extension.get(Extra) is None
    sent = Extended()
    sent.extension.set(extra(2))
    back = service.echo(sent)
    same(extra(2), back.extension.get(Extra))
    assert back.extension.get(Choice) is None
    # What nobody has looked at is passed on as it came.
    same(extra(2), service.echo(service.echo(sent)).extension.get(Extra))
    sent.extension.set(Choice.text("chosen"))
    assert service.echo(sent).extension.get(Choice) == Choice.text("chosen")
    same(extra(1), service.echo_stable(extra(1)))
    sent.extension.clear()
    assert not service.echo(sent).extension


def test_an_object_in_a_holder_comes_back(service):
    held = Extended()
    held.extension.set(Attached(object=service.binder(), name="itself"))
    back = service.echo(service.echo(held)).extension.get(Attached)
    assert back.name == "itself"
    same(extra(0), HoldsProxy(back.object).echo_stable(extra(0)))


def test_what_is_stable_holds_what_is_stable():
    with pytest.raises(handoff.ServiceError, match="sample.held.Choice is not `@VintfStability`"):
        extra(0).more.set(Choice.number(1))
    with pytest.raises(TypeError, match="int is no parcelable"):
        ParcelableHolder().set(7)


def test_a_bundle_comes_back(service):
    bundle, inner = PersistableBundle(), PersistableBundle()
    inner.put_string("", "ünï😀")
    bundle.put_boolean("b", True)
    bundle.put_int("i", -(1 << 31))
    bundle.put_long("l", 1 << 62)
    bundle.put_double("d", 0.5)
    bundle.put_string("s", "text")
    bundle.put_boolean_array("bs", [True, False])
    bundle.put_int_array("is", [1, -1])
    bundle.put_long_array("ls", [])
    bundle.put_double_array("ds", [0.25])
    bundle.put_string_array("ss", ["", "x"])
    bundle.put_bundle("p", inner)
    back = service.echo_bundle(bundle)
    assert back == bundle and len(back) == 11 and back.names() == sorted(bundle.names())
    assert back.get_boolean("b") is True and back.get_int("i") == -(1 << 31) and back.get_long("l") == 1 << 62
    assert back.get_double("d") == 0.5 and back.get_string("s") == "text" and back.get_long_array("ls") == []
    assert back.get_boolean_array("bs") == [True, False] and back.get_int_array("is") == [1, -1]
    assert back.get_double_array("ds") == [0.25] and back.get_string_array("ss") == ["", "x"]
    assert back.get_bundle("p") == inner and back.get_bundle("p").get_string("") == "ünï😀"
    assert back.get_int("l") is None and back.get_string("none") is None
    assert back.remove("i") and not back.remove("i") and back != bundle
    assert service.echo_bundle(None) is None and len(service.echo_bundle(PersistableBundle())) == 0
    with pytest.raises(OverflowError):
        bundle.put_int("i", 1 << 31)
