"""Lines of NCCL's log, in the forms that its versions print."""

from dataclasses import dataclass

HASH = "0x54fe282d32a87d85"


@dataclass(frozen=True)
class Writer:
    """A process whose lines these are."""

    pid: int
    host: str = "node0"
    device: int = 0
    tid: int = 0

    def says(self, text: str) -> str:
        return f"{self.host}:{self.pid}:{self.tid or self.pid} [{self.device}] NCCL INFO {text}\n"

    def made(
        self, pointer: str, place: int, size: int, hash_: str = HASH, split: str = "", **_: object
    ) -> str:
        """A communicator is ready, as 2.24 to 2.28 say it."""
        whose = f"parent {split}" if split else f"commId {hash_}"
        return self.says(
            f"ncclCommInitRankConfig comm {pointer} rank {place} nranks {size} cudaDev"
            f" {self.device} nvmlDev {self.device} busId 17000 {whose} - Init COMPLETE"
        )

    def chose(self, op: str, bytes_: int, algorithm: str = "RING", protocol: str = "SIMPLE") -> str:
        """A choice, as 2.24 and later say it."""
        return self.says(
            f"{op}: {bytes_} Bytes -> Algo {algorithm} proto {protocol} channel{{Lo..Hi}}={{0..15}}"
        )

    def called(self, op: str, elements: int, pointer: str, size: int) -> str:
        """A call with float32."""
        return self.says(
            f"{op}: opCount 1a sendbuff 0x720000000 recvbuff (nil) count {elements} datatype 7 op 0"
            f" root 0 comm {pointer} [nranks={size}] stream 0x55b6a98daaf0"
        )
