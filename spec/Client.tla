------------------------------ MODULE Client ------------------------------
(* The life of a claim, seen from its owner: src/core/client. Owners of exclusive claims on one key talk to  *)
(* a store over a network that loses, delays and repeats. A request that was sent once can be carried out at *)
(* any later time, any number of times: so nothing is ever taken off the network. The store is the rule of   *)
(* Rule.tla in short: who waits is granted when nobody holds, in any order.                                  *)
EXTENDS Integers, Sequences

CONSTANTS
  Claims,
  Ttl,       \* in ticks of the store's clock
  Margin,    \* by how much an owner trusts its lease for less: it covers an owner's clock that runs slow
  CallsMax   \* calls an owner makes for one claim: the claim itself, then renewals; bounds the check

VARIABLES
  state, left,   \* the store: absent, waiting or held; what is left of the lease
  phase,         \* the owner: new, asking, held, over
  trust,         \* for how long the owner believes that it holds, by its own clock
  calls,         \* the age of each call, counted from before it was sent, by the owner's clock
  released,      \* the owner has sent a release
  reply,         \* the last answer on its way to the owner; an older one is lost
  lag            \* ticks until the owner's clock may miss one again: it runs slow by one tick in Ttl

vars == <<state, left, phase, trust, calls, released, reply, lag>>
owner == <<phase, trust, calls, released>>

None == [call |-> 0, state |-> "absent", left |-> 0]
Nobody(c) == \A d \in Claims : d = c \/ state[d] # "held"

Init == /\ state = [c \in Claims |-> "absent"] /\ left = [c \in Claims |-> 0]
        /\ phase = [c \in Claims |-> "new"] /\ trust = [c \in Claims |-> 0]
        /\ calls = [c \in Claims |-> <<>>] /\ released = [c \in Claims |-> FALSE]
        /\ reply = [c \in Claims |-> None] /\ lag = [c \in Claims |-> 0]

---------------------------------------------------------------------------
(* The owner *)

\* A claim, or its renewal: a waiting claim is renewed as a held one is.
Call(c) == /\ phase[c] # "over" /\ Len(calls[c]) < CallsMax
           /\ phase' = [phase EXCEPT ![c] = IF @ = "new" THEN "asking" ELSE @]
           /\ calls' = [calls EXCEPT ![c] = Append(@, 0)]
           /\ UNCHANGED <<state, left, trust, released, reply, lag>>

Over(c, says) == /\ phase' = [phase EXCEPT ![c] = "over"] /\ trust' = [trust EXCEPT ![c] = 0]
                 /\ released' = [released EXCEPT ![c] = says] /\ UNCHANGED calls

\* It has had enough, or does not know how a call ended: either way it releases the claim by its id.
GiveUp(c) == phase[c] \in {"asking", "held"} /\ Over(c, TRUE) /\ UNCHANGED <<state, left, reply, lag>>
Die(c) == phase[c] \in {"asking", "held"} /\ Over(c, FALSE) /\ UNCHANGED <<state, left, reply, lag>>

\* What the store had left when it answered, less the time since the call was sent, less the margin.
Trusted(c) == reply[c].left - calls[c][reply[c].call] - Margin

Hear(c) == /\ reply[c].call > 0 /\ phase[c] \in {"asking", "held"}
           /\ CASE reply[c].state = "held" /\ Trusted(c) > trust[c] ->
                     /\ phase' = [phase EXCEPT ![c] = "held"] /\ trust' = [trust EXCEPT ![c] = Trusted(c)]
                     /\ UNCHANGED <<calls, released>>
                [] reply[c].state = "absent" -> Over(c, TRUE)
                [] OTHER -> FALSE
           /\ UNCHANGED <<state, left, reply, lag>>

---------------------------------------------------------------------------
(* The store *)

\* The store carries out a request; its answer leaves for the owner, or is lost.
Answers(c, call, s, l) ==
  /\ state' = [state EXCEPT ![c] = s] /\ left' = [left EXCEPT ![c] = l]
  /\ reply' \in {reply, [reply EXCEPT ![c] = [call |-> call, state |-> s, left |-> l]]}
  /\ UNCHANGED <<phase, trust, calls, released, lag>>

\* A copy of the claim that comes late begins the claim anew: the store has forgotten it.
CarryOutClaim(c) ==
  /\ Len(calls[c]) > 0
  /\ IF state[c] = "absent" THEN Answers(c, 1, IF Nobody(c) THEN "held" ELSE "waiting", Ttl)
                            ELSE Answers(c, 1, state[c], left[c])
CarryOutRenewal(c, call) ==
  /\ call > 1 /\ call <= Len(calls[c])
  /\ IF state[c] = "absent" THEN Answers(c, call, "absent", 0)
                            ELSE Answers(c, call, IF Nobody(c) THEN "held" ELSE state[c], Ttl)
CarryOutRelease(c) ==
  /\ released[c] /\ state[c] # "absent"
  /\ state' = [state EXCEPT ![c] = "absent"] /\ left' = [left EXCEPT ![c] = 0]
  /\ UNCHANGED <<phase, trust, calls, released, reply, lag>>

\* With the request of another claim; its owner hears of it by a call of its own.
Promote(c) == /\ state[c] = "waiting" /\ Nobody(c)
              /\ state' = [state EXCEPT ![c] = "held"]
              /\ UNCHANGED <<left, phase, trust, calls, released, reply, lag>>

---------------------------------------------------------------------------
(* Time. An owner in `slow` misses the tick. *)

Down(n) == IF n > 0 THEN n - 1 ELSE 0
Older(ages) == [i \in 1..Len(ages) |-> IF ages[i] < Ttl THEN ages[i] + 1 ELSE Ttl]

Tick == \E slow \in SUBSET {c \in Claims : lag[c] = 0 /\ phase[c] \in {"asking", "held"}} :
  LET now(c) == IF c \in slow THEN trust[c] ELSE Down(trust[c])
      ends(c) == phase[c] = "held" /\ now(c) = 0
  IN  /\ left' = [c \in Claims |-> Down(left[c])]
      /\ state' = [c \in Claims |-> IF left[c] <= 1 THEN "absent" ELSE state[c]]
      /\ trust' = [c \in Claims |-> now(c)]
      /\ phase' = [c \in Claims |-> IF ends(c) THEN "over" ELSE phase[c]]
      /\ released' = [c \in Claims |-> released[c] \/ ends(c)]
      /\ calls' = [c \in Claims |-> IF c \in slow \/ phase[c] = "over" THEN calls[c] ELSE Older(calls[c])]
      /\ lag' = [c \in Claims |-> IF c \in slow THEN Ttl - 1 ELSE Down(lag[c])]
      /\ UNCHANGED reply

Next == \/ Tick
        \/ \E c \in Claims : \/ Call(c) \/ GiveUp(c) \/ Die(c) \/ Hear(c) \/ Promote(c)
                             \/ CarryOutClaim(c) \/ CarryOutRelease(c)
                             \/ \E call \in 2..CallsMax : CarryOutRenewal(c, call)

---------------------------------------------------------------------------
(* The promises of docs/guarantees.md *)

Exclusion == \A c, d \in Claims : c = d \/ state[c] # "held" \/ state[d] # "held"
HolderStopsFirst == \A c \in Claims : trust[c] = 0 \/ (state[c] = "held" /\ left[c] > 0)
OneBeliever == \A c, d \in Claims : c = d \/ trust[c] = 0 \/ trust[d] = 0
LateClaimReachesNoCaller == \A c \in Claims : phase[c] = "held" \/ trust[c] = 0
LateClaimLivesOneTtl == \A c \in Claims : left[c] <= Ttl /\ (state[c] = "absent" \/ left[c] > 0)
=============================================================================
