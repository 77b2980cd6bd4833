package sample.everything;

import sample.everything.Point;

/** One of several things. */
union Shape {
    const int CORNERS = 4;
    int radius = 7;
    Point corner;
    @nullable String name;
    byte[] pixels;
}
