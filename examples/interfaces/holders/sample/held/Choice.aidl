package sample.held;

/** Another thing that is added, of this build alone. */
union Choice {
    int number;
    String text;
}
