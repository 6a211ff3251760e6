// Bulk TCP transfers over a rough link, on ns-3 3.44 or, with NS3_RELEASE, on a release from 3.27 on.
//
//   sa --(rate1, delay1)-- secc --(rate2, delay2, queue, noise)-- evcc
//
// One group is one such chain with `flows-per-group` downloads sa -> evcc; `groups` chains that
// share nothing run in one simulator. Noise affects only packets that arrive at evcc's device.
// The output on stdout is one JSON object; `--trace` writes one CSV line per event (columns: kTraceHeader in watch.h).
//
// Units on the command line: rates and times as ns-3 spells them (10Mbps, 9.1ms), sizes in bytes,
// queue in packets. Any ns-3 attribute can be set as --ns3::TcpIllinois::WinThresh=15.

#include "watch.h"

#include <chrono>
#include <fstream>
#include <memory>
#include <sys/resource.h>
#include <vector>

namespace
{

struct Options
{
    uint32_t groups = 1;
    uint32_t flowsPerGroup = 1;
    std::string rate1 = "500Mbps";
    std::string rate2 = "10Mbps";
    std::string delay1 = "9.1ms";
    std::string delay2 = "0.9ms";
    uint32_t queue = 100;
    std::string queueDisc = "none";
    uint32_t mtu = 1500;
    uint32_t segment = 1460;
    bool timestamps = true;
    bool sack = true;
    bool windowScaling = true;
    uint32_t delayedAck = 2;
    std::string delayedAckTimeout = "200ms";
    uint32_t sndBuf = 131072;
    uint32_t rcvBuf = 131072;
    uint32_t initialWindow = 10;
    uint32_t initialSsthresh = 0xffffffff;
    std::string minRto = "1s";
    std::string synRto = "3s";
    uint32_t dataRetries = 6;
    bool limitedTransmit = true;
    bool noDelay = true;
    std::string variant = "NewReno";
    std::string recovery = "PrrRecovery";
    uint64_t bytes = 10000000;
    uint32_t sendSize = 512;
    std::string duration = "100000s";
    std::string startSpacing = "0s";
    uint32_t seed = 1;
    uint64_t run = 1;
    double burstStart = 0;
    uint32_t burstMin = 1;
    uint32_t burstMax = 4;
    double randomLoss = 0;
    std::string drop;
    std::string trace;
    std::string traceKinds = "data,ack,arrive,cwnd,ssthresh,state,rto,rtt,pacing,sink";
};

struct Group
{
    Ptr<Noise> noise;
    uint64_t queueDrops = 0;
    uint32_t queueMax = 0;

    void OnQueueDrop(Ptr<const Packet>)
    {
        queueDrops++;
    }

    // Packets that waited, summed over time, in packets times nanoseconds.
    double queueArea = 0;
    uint32_t queueNow = 0;
    int64_t queueSince = 0;

    void OnQueueLength(uint32_t, uint32_t now)
    {
        queueMax = std::max(queueMax, now);
        MeanQueue();
        queueNow = now;
    }

    double MeanQueue()
    {
        const int64_t time = Simulator::Now().GetNanoSeconds();
        queueArea += static_cast<double>(queueNow) * (time - queueSince);
        queueSince = time;
        return time > 0 ? queueArea / time : 0;
    }
};

std::string FullName(const std::string& name)
{
    return name.rfind("ns3::", 0) == 0 ? name : "ns3::Tcp" + name;
}

std::vector<std::string> Split(const std::string& list)
{
    std::vector<std::string> words;
    std::stringstream stream(list);
    for (std::string word; std::getline(stream, word, ',');)
    {
        words.push_back(word);
    }
    return words;
}

void SetTcpDefaults(const Options& o)
{
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(o.segment));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(o.sndBuf));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(o.rcvBuf));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(o.initialWindow));
    Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(o.initialSsthresh));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(o.delayedAck));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", StringValue(o.delayedAckTimeout));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", StringValue(o.synRto));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(o.dataRetries));
    Config::SetDefault("ns3::TcpSocket::TcpNoDelay", BooleanValue(o.noDelay));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", StringValue(o.minRto));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(o.timestamps));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(o.sack));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(o.windowScaling));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(o.limitedTransmit));
#if NS3_RELEASE >= 329
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName(FullName(o.recovery))));
#endif
}

NetDeviceContainer Connect(const Options& o,
                           Ptr<Node> left,
                           Ptr<Node> right,
                           const std::string& rate,
                           const std::string& delay,
                           Ipv4AddressHelper& addresses,
                           Ipv4InterfaceContainer& interfaces)
{
    PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", StringValue(rate));
    helper.SetDeviceAttribute("Mtu", UintegerValue(o.mtu));
    helper.SetChannelAttribute("Delay", StringValue(delay));
#if NS3_RELEASE >= 329
    helper.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, o.queue)));
#else
    helper.SetQueue("ns3::DropTailQueue", "MaxPackets", UintegerValue(o.queue));
#endif
    if (o.queueDisc == "none")
    {
        // A device without flow control gets no queue disc either, and drops packets when its queue is full. With
        // flow control the layer above would drop them, and no counter of the queue would include these drops.
#if NS3_RELEASE >= 331
        helper.DisableFlowControl();
#endif
    }
    NetDeviceContainer devices = helper.Install(left, right);
    interfaces = addresses.Assign(devices); // also installs a queue disc on devices with flow control
#if NS3_RELEASE < 331
    if (o.queueDisc == "none")
    {
        TrafficControlHelper().Uninstall(devices);
    }
#endif
    addresses.NewNetwork();
    return devices;
}

Ptr<ErrorModel> RandomNoise(const Options& o)
{
    if (o.burstStart > 0)
    {
        auto length = CreateObject<UniformRandomVariable>();
        length->SetAttribute("Min", DoubleValue(o.burstMin));
        length->SetAttribute("Max", DoubleValue(o.burstMax));
        auto burst = CreateObject<BurstErrorModel>();
        burst->SetBurstRate(o.burstStart);
        burst->SetRandomBurstSize(length);
        return burst;
    }
    if (o.randomLoss > 0)
    {
        auto each = CreateObject<RateErrorModel>();
        each->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        each->SetRate(o.randomLoss);
        return each;
    }
    return nullptr;
}

void BuildGroup(const Options& o,
                const std::vector<std::string>& variants,
                Ipv4AddressHelper& addresses,
                std::vector<std::unique_ptr<Flow>>& flows,
                Group& group)
{
    NodeContainer nodes; // sa, secc, evcc
    nodes.Create(3);
    const std::string groupVariant = FullName(variants[flows.size() % variants.size()]);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(nodes);
    nodes.Get(0)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", TypeIdValue(TypeId::LookupByName(groupVariant)));

    Ipv4InterfaceContainer internet;
    Ipv4InterfaceContainer plc;
    Connect(o, nodes.Get(0), nodes.Get(1), o.rate1, o.delay1, addresses, internet);
    NetDeviceContainer cable = Connect(o, nodes.Get(1), nodes.Get(2), o.rate2, o.delay2, addresses, plc);
    Ipv4StaticRoutingHelper routing;
    routing.GetStaticRouting(nodes.Get(0)->GetObject<Ipv4>())->SetDefaultRoute(internet.GetAddress(1), 1);
    routing.GetStaticRouting(nodes.Get(2)->GetObject<Ipv4>())->SetDefaultRoute(plc.GetAddress(0), 1);

    group.noise = CreateObject<Noise>();
    group.noise->firstFlow = flows.size();
    group.noise->random = RandomNoise(o);
    for (const auto& number : Split(o.drop))
    {
        group.noise->dropList.insert(std::stoull(number));
    }
    cable.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(group.noise));
    auto queue = DynamicCast<PointToPointNetDevice>(cable.Get(0))->GetQueue();
    queue->TraceConnectWithoutContext("Drop", MakeCallback(&Group::OnQueueDrop, &group));
    queue->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&Group::OnQueueLength, &group));

    for (uint32_t i = 0; i < o.flowsPerGroup; i++)
    {
        auto flow = std::make_unique<Flow>();
        flow->number = flows.size();
        flow->variant = FullName(variants[flow->number % variants.size()]);
        flow->start = flow->number * Time(o.startSpacing);
        flow->bytesWanted = o.bytes;
        const uint16_t port = kFirstPort + i;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        flow->sink = DynamicCast<PacketSink>(sink.Install(nodes.Get(2)).Get(0));
        flow->sink->TraceConnectWithoutContext("Rx", MakeCallback(&Flow::OnDelivered, flow.get()));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(plc.GetAddress(1), port));
        source.SetAttribute("MaxBytes", UintegerValue(o.bytes));
        source.SetAttribute("SendSize", UintegerValue(o.sendSize));
        flow->source = DynamicCast<BulkSendApplication>(source.Install(nodes.Get(0)).Get(0));
        flow->source->SetStartTime(flow->start);
        Simulator::Schedule(flow->start + NanoSeconds(1), &Flow::Attach, flow.get(), groupVariant);
        flows.push_back(std::move(flow));
    }
}

void AddOptions(CommandLine& cmd, Options& o)
{
    cmd.AddValue("groups", "independent chains in one simulator", o.groups);
    cmd.AddValue("flows-per-group", "downloads that share one chain", o.flowsPerGroup);
    cmd.AddValue("rate1", "rate sa - secc", o.rate1);
    cmd.AddValue("rate2", "rate secc - evcc", o.rate2);
    cmd.AddValue("delay1", "one-way delay sa - secc", o.delay1);
    cmd.AddValue("delay2", "one-way delay secc - evcc", o.delay2);
    cmd.AddValue("queue", "drop-tail queue of every device, packets waiting", o.queue);
    cmd.AddValue("queue-disc", "none, or default (ns-3 puts FqCoDel above the device)", o.queueDisc);
    cmd.AddValue("mtu", "MTU of both links, bytes", o.mtu);
    cmd.AddValue("segment", "payload bytes per segment, options not subtracted", o.segment);
    cmd.AddValue("timestamps", "RFC 7323 timestamps", o.timestamps);
    cmd.AddValue("sack", "selective acknowledgment", o.sack);
    cmd.AddValue("window-scaling", "RFC 7323 window scaling", o.windowScaling);
    cmd.AddValue("delayed-ack", "segments per ACK, 1 = off", o.delayedAck);
    cmd.AddValue("delayed-ack-timeout", "delayed-ACK timer", o.delayedAckTimeout);
    cmd.AddValue("snd-buf", "send buffer, bytes", o.sndBuf);
    cmd.AddValue("rcv-buf", "receive buffer, bytes", o.rcvBuf);
    cmd.AddValue("initial-window", "initial window, segments", o.initialWindow);
    cmd.AddValue("initial-ssthresh", "initial slow-start threshold, bytes", o.initialSsthresh);
    cmd.AddValue("min-rto", "smallest retransmission time-out", o.minRto);
    cmd.AddValue("syn-rto", "first time-out of the SYN", o.synRto);
    cmd.AddValue("data-retries", "consecutive time-outs before the connection gives up", o.dataRetries);
    cmd.AddValue("limited-transmit", "RFC 3042", o.limitedTransmit);
    cmd.AddValue("no-delay", "Nagle off", o.noDelay);
    cmd.AddValue("variant", "NewReno, Cubic, ... or a list dealt out to the flows in turn", o.variant);
    cmd.AddValue("recovery", "PrrRecovery or ClassicRecovery; before 3.29 no effect", o.recovery);
    cmd.AddValue("bytes", "bytes per flow, 0 = unlimited", o.bytes);
    cmd.AddValue("send-size", "bytes the application writes at once", o.sendSize);
    cmd.AddValue("duration", "hard stop", o.duration);
    cmd.AddValue("start-spacing", "time between the starts of successive flows", o.startSpacing);
    cmd.AddValue("seed", "RngSeed", o.seed);
    cmd.AddValue("run", "RngRun", o.run);
    cmd.AddValue("burst-start", "probability that a packet starts a burst", o.burstStart);
    cmd.AddValue("burst-min", "shortest burst, packets", o.burstMin);
    cmd.AddValue("burst-max", "longest burst, packets", o.burstMax);
    cmd.AddValue("random-loss", "independent packet loss probability", o.randomLoss);
    cmd.AddValue("drop", "zero-based arrival numbers to drop at evcc, comma-separated", o.drop);
    cmd.AddValue("trace", "CSV file for the event trace", o.trace);
    cmd.AddValue("trace-kinds", "which kinds of events to trace", o.traceKinds);
}

// Returns the peak resident set of this program in kB. Do not use ru_maxrss, which includes the parent's size at fork.
long PeakRss()
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
    {
        if (line.rfind("VmHWM:", 0) == 0)
        {
            return std::stol(line.substr(6));
        }
    }
    return 0;
}

// Returns the number of events that were processed, or 0 in releases that do not count them.
uint64_t EventCount()
{
#if NS3_RELEASE >= 330
    return Simulator::GetEventCount();
#else
    return 0;
#endif
}

double InSeconds(const timeval& t)
{
    return t.tv_sec + t.tv_usec * 1e-6;
}

void PrintResult(const Options& o,
                 const std::vector<std::unique_ptr<Flow>>& flows,
                 std::vector<Group>& groups,
                 const rusage& before,
                 const rusage& after,
                 double wall,
                 long setupRss)
{
    uint64_t deliveredPackets = 0;
    for (const auto& flow : flows)
    {
        deliveredPackets += (flow->delivered + o.segment - 1) / o.segment;
    }
    std::printf("{\"simulator\":\"ns-" NS3_VERSION "\",\"seed\":%u,\"run\":%" PRIu64 ",\"sim_s\":%.9f,\"wall_s\":%.6f,"
                "\"user_s\":%.6f,\"sys_s\":%.6f,\"events\":%" PRIu64 ",\"delivered_packets\":%" PRIu64
                ",\"setup_rss_kb\":%ld,\"peak_rss_kb\":%ld,\n \"flows\":[",
                o.seed,
                o.run,
                Simulator::Now().GetSeconds(),
                wall,
                InSeconds(after.ru_utime) - InSeconds(before.ru_utime),
                InSeconds(after.ru_stime) - InSeconds(before.ru_stime),
                EventCount(),
                deliveredPackets,
                setupRss,
                PeakRss());
    for (const auto& flow : flows)
    {
        const double span = (flow->lastByte - flow->start).GetSeconds();
        std::printf("%s\n  {\"flow\":%u,\"variant\":\"%s\",\"start_s\":%.9f,\"end_s\":",
                    flow->number ? "," : "",
                    flow->number,
                    flow->variant.c_str() + (flow->variant.rfind("ns3::Tcp", 0) == 0 ? 8 : 0),
                    flow->start.GetSeconds());
        flow->Completed() ? std::printf("%.9f", flow->lastByte.GetSeconds()) : std::printf("null");
        std::printf(",\"completed\":%s,\"delivered_bytes\":%" PRIu64 ",\"last_byte_s\":%.9f,\"throughput_mbps\":%.9f,"
                    "\"segments\":%" PRIu64 ",\"retransmits\":%" PRIu64 ",\"timeouts\":%" PRIu64
                    ",\"fast_recoveries\":%" PRIu64 ",\"state\":\"%s\"}",
                    flow->Completed() ? "true" : "false",
                    flow->delivered,
                    flow->lastByte.GetSeconds(),
                    span > 0 ? flow->delivered * 8 / span / 1e6 : 0,
                    flow->segments,
                    flow->retransmits,
                    flow->timeouts,
                    flow->fastRecoveries,
                    flow->state.c_str());
    }
    std::printf("],\n \"links\":[");
    for (size_t i = 0; i < groups.size(); i++)
    {
        std::printf("%s{\"name\":\"plc\",\"group\":%zu,\"forward\":{\"packets\":%" PRIu64 ",\"dropped\":%" PRIu64
                    ",\"lost\":%" PRIu64 ",\"queue_mean_pkt\":%.6f,\"queue_max_pkt\":%u}}",
                    i ? "," : "",
                    i,
                    groups[i].noise->arrivals,
                    groups[i].queueDrops,
                    groups[i].noise->lost,
                    groups[i].MeanQueue(),
                    groups[i].queueMax);
    }
    std::printf("]}\n");
}

} // namespace

int main(int argc, char* argv[])
{
    Options o;
    CommandLine cmd;
    cmd.Usage("Bulk TCP over a rough link; prints one JSON object.");
    AddOptions(cmd, o);
    cmd.Parse(argc, argv);
    NS_ABORT_MSG_UNLESS(o.queueDisc == "none" || o.queueDisc == "default", "queue-disc is none or default");
    NS_ABORT_MSG_UNLESS(o.groups && o.flowsPerGroup, "at least one group and one flow per group");
    NS_ABORT_MSG_IF(o.burstStart > 0 && o.randomLoss > 0, "burst-start and random-loss exclude each other");
    RngSeedManager::SetSeed(o.seed);
    RngSeedManager::SetRun(o.run);
    SetTcpDefaults(o);
    g_trace.Open(o.trace, o.traceKinds);

    const auto variants = Split(o.variant);
    std::vector<std::unique_ptr<Flow>> flows;
    std::vector<Group> groups(o.groups);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    for (auto& group : groups)
    {
        BuildGroup(o, variants, addresses, flows, group);
    }
    g_unfinished = flows.size();
    Simulator::Stop(Time(o.duration));

    rusage before;
    rusage after;
    const long setupRss = PeakRss();
    getrusage(RUSAGE_SELF, &before);
    const auto begin = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    getrusage(RUSAGE_SELF, &after);
    PrintResult(o, flows, groups, before, after, wall.count(), setupRss);
    g_trace.Close();
    Simulator::Destroy();
    return 0;
}
