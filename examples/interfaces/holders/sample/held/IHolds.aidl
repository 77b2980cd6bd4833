package sample.held;

import android.os.PersistableBundle;
import sample.held.Extended;
import sample.held.Extra;

/** Passes on what it knows nothing of. */
interface IHolds {
    Extended echo(in Extended value);
    Extra echoStable(in Extra value);
    @nullable PersistableBundle echoBundle(in @nullable PersistableBundle value);
}
