// Figure 5 of the V2G paper on ns-3 3.27: three cars on one CSMA channel, each with a bulk TCP download.
//
//   sa --(500 Mbit/s, delay1)-- router --(CSMA channel: 10 Mbit/s, delay)-- car 1, car 2, car 3
//
// The model has no collisions: a device that finds the channel busy waits for a random time and tries again. The
// channel is busy while a frame is sent and then for `delay`, and every device receives every frame. The TCP settings
// are those of bulk.cc with an initial window of one segment. The output on stdout is one JSON object.
//
// Each car's device loses frames in bursts. The noise counts the frames to that car (--noise=own, as on the pipes of
// bulk.cc) or every frame that the device receives (--noise=all, as any error model of ns-3 on a CSMA device).

#include "watch.h"
#include "ns3/csma-module.h"

namespace
{

// Error model of a car's device, which leaves frames for others out of the noise.
struct OwnFrames : ErrorModel
{
    Ptr<Noise> noise = CreateObject<Noise>();
    Address own; // invalid: all frames count

    bool DoCorrupt(Ptr<Packet> packet) override
    {
        EthernetHeader header(false);
        packet->PeekHeader(header);
        const bool counts = own.IsInvalid() || header.GetDestination() == Mac48Address::ConvertFrom(own);
        return counts && noise->IsCorrupt(packet);
    }

    void DoReset() override {}
};

// What one or more devices did on the channel.
struct Use
{
    uint64_t frames = 0, bytes = 0;
    uint64_t waits = 0, givenUp = 0; // a frame is given up after 1000 waits for a busy channel

    static void Count(uint64_t* counter, Ptr<const Packet>) { ++*counter; }
    static void Add(uint64_t* sum, Ptr<const Packet> packet) { *sum += packet->GetSize(); }

    void Watch(Ptr<NetDevice> device)
    {
        device->TraceConnectWithoutContext("PhyTxBegin", MakeBoundCallback(&Use::Count, &frames));
        device->TraceConnectWithoutContext("PhyTxBegin", MakeBoundCallback(&Use::Add, &bytes));
        device->TraceConnectWithoutContext("MacTxBackoff", MakeBoundCallback(&Use::Count, &waits));
        device->TraceConnectWithoutContext("PhyTxDrop", MakeBoundCallback(&Use::Count, &givenUp));
    }
};

} // namespace

int main(int argc, char* argv[])
{
    uint32_t queue = 600, seed = 1;
    uint64_t bytes = 0;
    double loss = 0.05, duration = 90;
    std::string delay1 = "10ms", delay = "0.9ms", cc = "NewReno", noise = "own";
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460)); // 1512 bytes of IP, so two fragments
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(131072));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(131072));
    CommandLine cmd; // also --ns3::TcpSocket::SegmentSize=1448
    cmd.AddValue("delay1", "one-way delay sa - router", delay1);
    cmd.AddValue("delay", "delay of the channel", delay);
    cmd.AddValue("queue", "drop-tail queue of every device, packets waiting", queue);
    cmd.AddValue("cc", "NewReno, Illinois, ...", cc);
    cmd.AddValue("loss", "average loss; bursts of 1 to 4 packets start with 0.4 of it", loss);
    cmd.AddValue("noise", "the frames that it counts: own or all", noise);
    cmd.AddValue("seed", "RngSeed", seed);
    cmd.AddValue("bytes", "bytes per car, 0 = unlimited", bytes);
    cmd.AddValue("duration", "hard stop, seconds", duration);
    cmd.Parse(argc, argv);
    NS_ABORT_MSG_UNLESS(noise == "own" || noise == "all", "noise is own or all");
    RngSeedManager::SetSeed(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::Tcp" + cc)));

    NodeContainer nodes; // sa, router
    nodes.Create(2);
    NodeContainer lan(nodes.Get(1)); // router, cars
    lan.Create(3);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(NodeContainer::GetGlobal());
    PointToPointHelper internet;
    internet.SetDeviceAttribute("DataRate", StringValue("500Mbps"));
    internet.SetChannelAttribute("Delay", StringValue(delay1));
    internet.SetQueue("ns3::DropTailQueue", "MaxPackets", UintegerValue(queue));
    CsmaHelper csma;
    csma.SetChannelAttribute("DataRate", StringValue("10Mbps"));
    csma.SetChannelAttribute("Delay", StringValue(delay));
    csma.SetQueue("ns3::DropTailQueue", "MaxPackets", UintegerValue(queue));
    NetDeviceContainer devices[] = {internet.Install(nodes), csma.Install(lan)};
    Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(devices[0]);
    const auto addresses = Ipv4AddressHelper("10.0.1.0", "255.255.255.0").Assign(devices[1]);
    TrafficControlHelper().Uninstall({devices[0], devices[1]}); // only devices have queues, as in bulk.cc
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Use uses[2]; // the router, and all cars
    uses[0].Watch(devices[1].Get(0));
    Flow flows[3];
    Ptr<OwnFrames> models[3];
    for (uint32_t i = 0; i < 3; i++)
    {
        const auto device = devices[1].Get(i + 1);
        uses[1].Watch(device);
        auto burst = CreateObject<BurstErrorModel>(); // 1 to 4 packets by default
        burst->SetBurstRate(loss / 2.5);
        models[i] = CreateObject<OwnFrames>();
        models[i]->noise->random = burst;
        models[i]->own = noise == "own" ? device->GetAddress() : Address();
        device->SetAttribute("ReceiveErrorModel", PointerValue(models[i]));
        Flow* flow = &flows[i];
        flow->number = i;
        flow->variant = cc;
        flow->bytesWanted = bytes;
        g_unfinished++;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kFirstPort));
        sink.Install(lan.Get(i + 1)).Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Flow::OnDelivered, flow));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(addresses.GetAddress(i + 1), kFirstPort));
        source.SetAttribute("MaxBytes", UintegerValue(bytes));
        flow->source = DynamicCast<BulkSendApplication>(source.Install(nodes.Get(0)).Get(0));
        Simulator::Schedule(NanoSeconds(1), &Flow::Attach, flow, cc);
    }
    Simulator::Stop(Seconds(duration));
    Simulator::Run();

    std::printf("{\"simulator\":\"ns-" NS3_VERSION "\",\"cc\":\"%s\",\"loss\":%g,\"delay\":\"%s\",\"noise\":\"%s\","
                "\"seed\":%u,\n \"flows\":[", cc.c_str(), loss, delay.c_str(), noise.c_str(), seed);
    for (const Flow& flow : flows)
    {
        const Noise& counted = *models[flow.number]->noise;
        std::printf("%s\n  {\"flow\":%u,\"delivered_bytes\":%" PRIu64 ",\"last_byte_s\":%.9f,\"throughput_mbps\":%.9f,"
                    "\"segments\":%" PRIu64 ",\"retransmits\":%" PRIu64 ",\"timeouts\":%" PRIu64 ",\"arrivals\":%" PRIu64
                    ",\"lost\":%" PRIu64 "}",
                    flow.number ? "," : "", flow.number, flow.delivered, flow.lastByte.GetSeconds(),
                    flow.delivered * 8 / flow.lastByte.GetSeconds() / 1e6, flow.segments, flow.retransmits,
                    flow.timeouts, counted.arrivals, counted.lost);
    }
    for (const Use& use : uses)
    {
        std::printf("%s\n  {\"frames\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"waits\":%" PRIu64 ",\"given_up\":%" PRIu64
                    "}", &use == uses ? "],\n \"devices\":[" : ",", use.frames, use.bytes, use.waits, use.givenUp);
    }
    std::printf("]}\n");
    Simulator::Destroy();
    return 0;
}
