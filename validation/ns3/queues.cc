// Bulk TCP transfers through a queue discipline, on ns-3 3.44.
//
//   server --(100 Mbit/s, 10 ms)-- router --(rate, 10 ms, queue disc)-- client
//
// The discipline is on the router's device toward the client. The queue of the device holds only one packet, so waiting
// packets are in the discipline. The output on stdout is one JSON object.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <vector>

using namespace ns3;

namespace
{

std::vector<double> g_sojourn;

void OnSojourn(Time t)
{
    g_sojourn.push_back(t.GetSeconds() * 1e3);
}

double Quantile(double q)
{
    if (g_sojourn.empty())
    {
        return 0;
    }
    auto at = g_sojourn.begin() + static_cast<size_t>(q * (g_sojourn.size() - 1));
    std::nth_element(g_sojourn.begin(), at, g_sojourn.end());
    return *at;
}

} // namespace

int main(int argc, char* argv[])
{
    std::string disc = "CoDel";
    std::string rate = "10Mbps";
    std::string variant = "NewReno";
    uint32_t flows = 1;
    bool ecn = true;
    double duration = 60;
    CommandLine cmd(__FILE__);
    cmd.AddValue("disc", "CoDel, FqCoDel or Red: a threshold of 20 packets", disc);
    cmd.AddValue("rate", "rate of the bottleneck", rate);
    cmd.AddValue("variant", "TCP", variant);
    cmd.AddValue("flows", "transfers", flows);
    cmd.AddValue("ecn", "TCP offers ECN and the discipline marks", ecn);
    cmd.AddValue("duration", "seconds", duration);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::Tcp" + variant)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", EnumValue(ecn ? TcpSocketState::On : TcpSocketState::Off));

    NodeContainer nodes(3);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    access.SetChannelAttribute("Delay", StringValue("10ms"));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("10000p"));
    access.DisableFlowControl();
    Ipv4InterfaceContainer near = addresses.Assign(access.Install(nodes.Get(0), nodes.Get(1)));
    addresses.NewNetwork();

    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", StringValue(rate));
    bottleneck.SetChannelAttribute("Delay", StringValue("10ms"));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer devices = bottleneck.Install(nodes.Get(1), nodes.Get(2));
    TrafficControlHelper control;
    // Without an average (QW = 1), RED with equal thresholds marks each packet that arrives at a queue of that length.
    Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(20));
    Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(20));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1));
    Config::SetDefault("ns3::RedQueueDisc::Gentle", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    control.SetRootQueueDisc("ns3::" + disc + "QueueDisc", "UseEcn", BooleanValue(ecn), "MaxSize", StringValue("1000p"));
    Ptr<QueueDisc> queue = control.Install(devices.Get(0)).Get(0);
    Ipv4InterfaceContainer far = addresses.Assign(devices);
    queue->TraceConnectWithoutContext("SojournTime", MakeCallback(&OnSojourn));

    Ipv4StaticRoutingHelper routing;
    routing.GetStaticRouting(nodes.Get(0)->GetObject<Ipv4>())->SetDefaultRoute(near.GetAddress(1), 1);
    routing.GetStaticRouting(nodes.Get(2)->GetObject<Ipv4>())->SetDefaultRoute(far.GetAddress(0), 1);

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < flows; i++)
    {
        const auto port = static_cast<uint16_t>(5000 + i);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(nodes.Get(2)).Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(1), port));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(1448));
        source.Install(nodes.Get(0));
    }
    Simulator::Stop(Seconds(duration));
    Simulator::Run();

    uint64_t bytes = 0;
    for (const auto& sink : sinks)
    {
        bytes += sink->GetTotalRx();
    }
    const QueueDisc::Stats& stats = queue->GetStats();
    std::printf("{\"marked\": %u, \"dropped\": %u, \"goodput_mbps\": %.4f, \"delay_p50_ms\": %.3f, \"delay_p95_ms\": %.3f}\n",
                stats.nTotalMarkedPackets,
                stats.nTotalDroppedPackets,
                bytes * 8 / duration / 1e6,
                Quantile(0.5),
                Quantile(0.95));
    Simulator::Destroy();
    return 0;
}
