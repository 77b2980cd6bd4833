#ifndef COUNTERS_H
#define COUNTERS_H

/* counters of datagrams */
enum
{
	MIB_DATAGRAM_NUM = 0,
	MIB_INDATAGRAMS,			/* InDatagrams */
	MIB_NOPORTS,				/* NoPorts */
	__MIB_DATAGRAM_MAX
};

/* counters of streams */
enum
{
	MIB_NUM = 0,
	MIB_SYNCOOKIESSENT,			/* SyncookiesSent */
	MIB_RETRANSFAIL,			/* RetransFail */
	MIB_RCVCOALESCE,			/* RcvCoalesce */
	MIB_CHALLENGEACK,			/* ChallengeAck */
	MIB_SYNCHALLENGE,			/* SynChallenge */
	__MIB_MAX
};

/* counters of transforms */
enum
{
	MIB_XFRM_NUM = 0,
	MIB_XFRMINERROR,			/* XfrmInError */
	__MIB_XFRM_MAX
};

#endif	/* COUNTERS_H */
