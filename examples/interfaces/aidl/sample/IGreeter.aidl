package sample;

/** Greets people. */
interface IGreeter {
    String hello(String name);
}
