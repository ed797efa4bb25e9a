"""Packets keep their fields, their descriptors, and their bounds."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from rlvr_envs.sandbox.wire import MAX_PACKET, Answer, Packet, Refused, receive


def test_fields_and_descriptors_arrive_together() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        packet = Packet()
        packet.add("verb", 7, b"bytes", packet.place(near.fileno()), packet.place(None))

        packet.send(near)
        answer = receive(far)

    assert answer is not None
    assert answer.fields == ["verb", "7", "bytes", "0", "-", ""]
    assert len(answer.fds) == 1
    answer.close()


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        Packet().add("a\0b")


def test_a_packet_that_is_too_large_is_refused() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        packet = Packet()
        packet.add("x" * MAX_PACKET)

        with pytest.raises(ValueError, match="too large"):
            packet.send(near)


def test_the_largest_packet_fits() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        packet = Packet()
        packet.add("x" * (MAX_PACKET - 1))

        packet.send(near)

        assert len(far.recv(2 * MAX_PACKET)) == MAX_PACKET


def test_the_end_of_a_channel_is_no_answer() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near:
        far.close()

        assert receive(near) is None


def test_a_refusal_says_what_was_being_done() -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    answer = Answer(["error", str(errno.ENOSPC), "writing a file"], (read_end,))

    with pytest.raises(Refused, match="writing a file: No space left") as caught:
        answer.checked()

    assert caught.value.code == errno.ENOSPC
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read_end)
