"""MonkeyTree for training programs: state that can move, and the hook for PyTorch."""

from ._state import (  # noqa: F401
    Arena,
    Receiver,
    Sender,
    StagingClient,
    StagingServer,
    StateError,
    random_token,
)
