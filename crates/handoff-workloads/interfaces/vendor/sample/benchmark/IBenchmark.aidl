package vendor.sample.benchmark;

import vendor.sample.benchmark.SampleMessage;

/** Sums what it is sent. */
interface IBenchmark {
    /** Returns when the message was read. */
    void writeMessage(in SampleMessage message);
    /** Returns when the message is on its way. */
    oneway void writeMessageOneway(in SampleMessage message);
}
