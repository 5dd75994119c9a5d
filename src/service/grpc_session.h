#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "service/agent_hub.h"
#include "wire/agents.grpc.pb.h"

namespace monkeytree {

/// Takes the streams that agents open.
class AgentService final : public wire::v1::Agents::CallbackService {
 public:
  /// `identified`: an agent speaks only for a node that its certificate names.
  AgentService(std::shared_ptr<AgentHub> hub, bool identified)
      : hub_(std::move(hub)), identified_(identified) {}
  grpc::ServerBidiReactor<wire::v1::FromAgent, wire::v1::ToAgent>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  std::shared_ptr<AgentHub> hub_;
  const bool identified_;
};

}  // namespace monkeytree
