------------------------------ MODULE Quorum ------------------------------
(* One exclusive lock over three stores: src/drivers/quorum, decision 025. Nodes count fences independently, *)
(* restart without their data, and answers are lost. Fences agree because a claim is reported only when a    *)
(* majority has exactly the highest fence that any node gave it.                                             *)
EXTENDS Integers, FiniteSets

CONSTANTS
  Nodes, Claims,
  Counters,     \* what the nodes may have counted before, each for itself
  Ttl, Margin,
  VotesAfter,   \* a node that has restarted does not vote for so many ticks
  RestartsMax   \* bounds the check

VARIABLES
  holder, left, fence,   \* per node: whom it holds the lock for, for how long, and with which fence
  last,                  \* per node: the last fence that it knows of
  silent,                \* per node: ticks until it votes
  got,                   \* per claim and node: the fence that the owner heard of, 0 if it heard of none
  trust,                 \* per claim: for how long its owner believes that it holds, or may yet come to
  reported,              \* per claim: its fence, once it is reported
  floor,                 \* per claim: the highest fence reported before the claim was made
  highest,               \* the highest fence ever minted: the wall clock is beyond it
  restarts

node == <<holder, left, fence, last, silent>>
Nothing == [n \in Nodes |-> 0]
Free == "nobody"
IsMajority(set) == 2 * Cardinality(set) > Cardinality(Nodes)
Highest(numbers) == CHOOSE n \in numbers : \A m \in numbers : m <= n
HighestReported == Highest({0} \cup {reported[c] : c \in Claims})

Init == /\ holder = [n \in Nodes |-> Free] /\ left = Nothing /\ fence = Nothing /\ silent = Nothing
        /\ last \in Counters /\ highest = Highest({last[n] : n \in Nodes})
        /\ got = [c \in Claims |-> Nothing] /\ trust = [c \in Claims |-> -1]
        /\ reported = [c \in Claims |-> 0] /\ floor = [c \in Claims |-> 0] /\ restarts = 0

IsAsking(c) == trust[c] > 0 /\ reported[c] = 0

---------------------------------------------------------------------------
(* The owner: it counts its lease from here on *)

Ask(c) == /\ trust[c] = -1 /\ trust' = [trust EXCEPT ![c] = Ttl - Margin]
          /\ floor' = [floor EXCEPT ![c] = HighestReported]
          /\ UNCHANGED <<node, got, reported, highest, restarts>>

\* The node grants, and the owner hears of it, or does not.
Vote(c, n) == /\ IsAsking(c) /\ holder[n] = Free /\ silent[n] = 0
              /\ LET minted == last[n] + 1
                 IN  /\ fence' = [fence EXCEPT ![n] = minted] /\ last' = [last EXCEPT ![n] = minted]
                     /\ highest' = IF minted > highest THEN minted ELSE highest
                     /\ got' \in {got, [got EXCEPT ![c][n] = minted]}
              /\ holder' = [holder EXCEPT ![n] = c] /\ left' = [left EXCEPT ![n] = Ttl]
              /\ UNCHANGED <<silent, trust, reported, floor, restarts>>

\* The highest fence is written back to a node that gave a lower one, or whose answer was lost.
WriteBack(c, n) ==
  LET top == Highest({got[c][m] : m \in Nodes})
  IN  /\ IsAsking(c) /\ holder[n] = c /\ top > 0 /\ got[c][n] # Highest({top, fence[n]})
      /\ fence' = [fence EXCEPT ![n] = Highest({top, fence[n]})]
      /\ last' = [last EXCEPT ![n] = Highest({top, last[n]})]
      /\ got' \in {got, [got EXCEPT ![c][n] = Highest({top, fence[n]})]}
      /\ UNCHANGED <<holder, left, silent, trust, reported, floor, highest, restarts>>

Report(c) == LET top == Highest({got[c][m] : m \in Nodes})
             IN  /\ IsAsking(c) /\ top > 0 /\ IsMajority({n \in Nodes : got[c][n] = top})
                 /\ reported' = [reported EXCEPT ![c] = top]
                 /\ UNCHANGED <<node, got, trust, floor, highest, restarts>>

\* It gives up, or lets go, and the releases reach some nodes.
Release(c) == \E reached \in SUBSET {n \in Nodes : holder[n] = c} :
  /\ trust[c] > 0 /\ trust' = [trust EXCEPT ![c] = 0] /\ got' = [got EXCEPT ![c] = Nothing]
  /\ holder' = [n \in Nodes |-> IF n \in reached THEN Free ELSE holder[n]]
  /\ left' = [n \in Nodes |-> IF n \in reached THEN 0 ELSE left[n]]
  /\ fence' = [n \in Nodes |-> IF n \in reached THEN 0 ELSE fence[n]]
  /\ UNCHANGED <<last, silent, reported, floor, highest, restarts>>

---------------------------------------------------------------------------
(* Time, and what befalls nodes *)

Tick == /\ trust' = [c \in Claims |-> IF trust[c] > 0 THEN trust[c] - 1 ELSE trust[c]]
        /\ got' = [c \in Claims |-> IF trust[c] = 1 THEN Nothing ELSE got[c]]
        /\ left' = [n \in Nodes |-> IF left[n] > 0 THEN left[n] - 1 ELSE 0]
        /\ holder' = [n \in Nodes |-> IF left[n] <= 1 THEN Free ELSE holder[n]]
        /\ fence' = [n \in Nodes |-> IF left[n] <= 1 THEN 0 ELSE fence[n]]
        /\ silent' = [n \in Nodes |-> IF silent[n] > 0 THEN silent[n] - 1 ELSE 0]
        /\ UNCHANGED <<last, reported, floor, highest, restarts>>

\* It forgets everything. Its next fence is at least the wall clock, and so above all that were minted before.
\* A vote that it gave does not count any more: its age is read after its answer.
Restart(n) == /\ restarts < RestartsMax /\ restarts' = restarts + 1
              /\ holder' = [holder EXCEPT ![n] = Free] /\ left' = [left EXCEPT ![n] = 0]
              /\ fence' = [fence EXCEPT ![n] = 0] /\ last' = [last EXCEPT ![n] = highest]
              /\ silent' = [silent EXCEPT ![n] = VotesAfter]
              /\ UNCHANGED <<got, trust, reported, floor, highest>>

Next == \/ Tick \/ \E n \in Nodes : Restart(n)
        \/ \E c \in Claims : Ask(c) \/ Report(c) \/ Release(c) \/ \E n \in Nodes : Vote(c, n) \/ WriteBack(c, n)

---------------------------------------------------------------------------
(* The promises of docs/guarantees.md *)

Believes(c) == reported[c] > 0 /\ trust[c] > 0
Exclusion == \A c, d \in Claims : c = d \/ ~Believes(c) \/ ~Believes(d)
FencesGrow == \A c \in Claims : reported[c] = 0 \/ reported[c] > floor[c]
NoFenceTwice == \A c, d \in Claims : c = d \/ reported[c] = 0 \/ reported[c] # reported[d]
=============================================================================
