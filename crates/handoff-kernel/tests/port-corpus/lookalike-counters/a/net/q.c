static const struct snmp_mib udp_list[] = {
	SNMP_MIB_ITEM("InDatagrams", MIB_INDATAGRAMS),
	SNMP_MIB_ITEM("NoPorts", MIB_NOPORTS),
	SNMP_MIB_SENTINEL
};

static const struct snmp_mib net_list[] = {
	SNMP_MIB_ITEM("SyncookiesSent", MIB_SYNCOOKIESSENT),
	SNMP_MIB_ITEM("Prequeued", MIB_PREQUEUED),
	SNMP_MIB_ITEM("FastOpen", MIB_FASTOPEN),
	SNMP_MIB_ITEM("SpuriousRtx", MIB_SPURIOUSRTX),
	SNMP_MIB_SENTINEL
};

static const struct snmp_mib lite_list[] = {
	SNMP_MIB_ITEM("InErrors", MIB_INERRORS),
	SNMP_MIB_SENTINEL
};

