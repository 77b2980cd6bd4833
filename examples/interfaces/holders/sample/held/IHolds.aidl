package sample.held;

import sample.held.Extended;
import sample.held.Extra;

/** Passes on what it knows nothing of. */
interface IHolds {
    Extended echo(in Extended value);
    Extra echoStable(in Extra value);
}
