package hello;

/** What the service does for others. */
interface IHello {
    /** Greets somebody; an empty name is an error. */
    String greet(String name);

    /** How many were greeted since the service began. */
    int greeted();
}
