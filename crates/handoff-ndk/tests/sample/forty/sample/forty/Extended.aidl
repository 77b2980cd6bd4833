package sample.forty;

import sample.forty.Shape;

parcelable Extended {
    int number = 8 << -1;
    @nullable String name = "none";
    @nullable int[2] pair = {1, 2};
    ParcelableHolder extension;
    Shape.Tag tag = Shape.Tag.leaf;
}
