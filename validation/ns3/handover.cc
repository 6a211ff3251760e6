// A transfer whose bottleneck fails and returns as another link, on ns-3.23: the runs of the Wave paper.
//
//   source --(100 Mbit/s, 1 ms)-- r1 --(bottleneck)-- r2 --(100 Mbit/s, 1 ms)-- sink
//
// During the outage each packet that arrives at r1 or r2 over the bottleneck is lost. Rate and delay change when the
// outage begins, for packets whose serialization has not begun. The output on stdout is one CSV line per segment that
// the source sends (`data`) and per read of the sink (`read`), with times in nanoseconds and lengths in bytes.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

using namespace ns3;

namespace
{

const uint16_t kPort = 5000;

class Outage : public ErrorModel
{
  public:
    Time begin;
    Time end;

  private:
    bool DoCorrupt(Ptr<Packet>) override
    {
        return Simulator::Now() >= begin && Simulator::Now() < end;
    }

    void DoReset() override
    {
    }
};

uint64_t g_highest = 0; // one past the highest sequence number sent

void OnSent(Ptr<const Packet> sent, Ptr<Ipv4>, uint32_t)
{
    Ptr<Packet> packet = sent->Copy();
    Ipv4Header ip;
    TcpHeader tcp;
    packet->RemoveHeader(ip);
    packet->RemoveHeader(tcp);
    if (packet->GetSize() == 0)
    {
        return;
    }
    const auto ahead = static_cast<int32_t>(tcp.GetSequenceNumber().GetValue() - static_cast<uint32_t>(g_highest));
    const uint64_t seq = g_highest + ahead;
    std::printf("data,%" PRId64 ",0,%" PRIu64 ",%u,%d\n",
                Simulator::Now().GetNanoSeconds(),
                seq,
                packet->GetSize(),
                seq < g_highest ? 1 : 0);
    g_highest = std::max(g_highest, seq + packet->GetSize());
}

void OnRead(Ptr<const Packet> packet, const Address&)
{
    std::printf("read,%" PRId64 ",0,0,%u,0\n", Simulator::Now().GetNanoSeconds(), packet->GetSize());
}

void Change(Ptr<PointToPointNetDevice> one, Ptr<PointToPointNetDevice> other, DataRate rate, Time delay)
{
    one->SetDataRate(rate);
    other->SetDataRate(rate);
    one->GetChannel()->SetAttribute("Delay", TimeValue(delay));
}

NetDeviceContainer Connect(Ptr<Node> left, Ptr<Node> right, DataRate rate, Time delay, uint32_t queue)
{
    PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", DataRateValue(rate));
    helper.SetChannelAttribute("Delay", TimeValue(delay));
    helper.SetQueue("ns3::DropTailQueue", "MaxPackets", UintegerValue(queue));
    NetDeviceContainer devices = helper.Install(left, right);
    static Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    addresses.Assign(devices);
    addresses.NewNetwork();
    return devices;
}

} // namespace

int main(int argc, char* argv[])
{
    std::string variant = "NewReno";
    std::string rate1 = "8Mbps";
    std::string rate2 = "2Mbps";
    double delay1 = 0.24;
    double delay2 = 0.03;
    double localDelay = 0.001;
    double at = 300;
    double outage = 2;
    double duration = 500;
    uint32_t queue = 100;
    uint32_t segment = 948;
    uint32_t delayedAck = 1;
    uint32_t buffer = 128 << 20;
    uint32_t ssthresh = 0xffff;
    bool westwoodPlus = true;
    CommandLine cmd;
    cmd.AddValue("variant", "NewReno, Reno, Tahoe or Westwood", variant);
    cmd.AddValue("rate1", "rate of the bottleneck before the outage", rate1);
    cmd.AddValue("rate2", "rate afterwards", rate2);
    cmd.AddValue("delay1", "one-way delay before the outage, s", delay1);
    cmd.AddValue("delay2", "one-way delay afterwards, s", delay2);
    cmd.AddValue("local-delay", "one-way delay of the local links, s", localDelay);
    cmd.AddValue("at", "start of the outage, s", at);
    cmd.AddValue("outage", "duration of the outage, s", outage);
    cmd.AddValue("duration", "end of the run, s", duration);
    cmd.AddValue("queue", "queue of the bottleneck, packets", queue);
    cmd.AddValue("segment", "payload bytes per segment", segment);
    cmd.AddValue("delayed-ack", "segments per ACK", delayedAck);
    cmd.AddValue("buffer", "send and receive buffer, bytes", buffer);
    cmd.AddValue("ssthresh", "initial ssthresh before window scaling, bytes", ssthresh);
    cmd.AddValue("westwood-plus", "Westwood+ instead of Westwood", westwoodPlus);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::Tcp" + variant)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(ssthresh));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(delayedAck));
    Config::SetDefault("ns3::TcpWestwood::ProtocolType",
                       EnumValue(westwoodPlus ? TcpWestwood::WESTWOODPLUS : TcpWestwood::WESTWOOD));

    NodeContainer nodes; // source, r1, r2, sink
    nodes.Create(4);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(nodes);
    Connect(nodes.Get(0), nodes.Get(1), DataRate("100Mbps"), Seconds(localDelay), 1000);
    NetDeviceContainer bottleneck = Connect(nodes.Get(1), nodes.Get(2), DataRate(rate1), Seconds(delay1), queue);
    Connect(nodes.Get(2), nodes.Get(3), DataRate("100Mbps"), Seconds(localDelay), 1000);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Ptr<Outage> down = CreateObject<Outage>();
    down->begin = Seconds(at);
    down->end = Seconds(at + outage);
    for (uint32_t end = 0; end < 2; end++)
    {
        bottleneck.Get(end)->SetAttribute("ReceiveErrorModel", PointerValue(down));
    }
    Simulator::Schedule(Seconds(at),
                        &Change,
                        DynamicCast<PointToPointNetDevice>(bottleneck.Get(0)),
                        DynamicCast<PointToPointNetDevice>(bottleneck.Get(1)),
                        DataRate(rate2),
                        Seconds(delay2));

    PacketSinkHelper sinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kPort));
    Ptr<Application> sink = sinkHelper.Install(nodes.Get(3)).Get(0);
    sink->TraceConnectWithoutContext("Rx", MakeCallback(&OnRead));
    const Ipv4Address address = nodes.Get(3)->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address, kPort));
    source.SetAttribute("MaxBytes", UintegerValue(0));
    source.SetAttribute("SendSize", UintegerValue(segment));
    source.Install(nodes.Get(0));
    nodes.Get(0)->GetObject<Ipv4L3Protocol>()->TraceConnectWithoutContext("Tx", MakeCallback(&OnSent));

    std::printf("kind,time_ns,flow,seq,len,retransmission\n");
    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    Simulator::Destroy();
    return 0;
}
