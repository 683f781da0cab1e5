------------------------------- MODULE Rule -------------------------------
(* Who holds a key: src/core/rule/admission.ts. One key; its claims are exclusive, or shared up to a limit.  *)
(* A key is a value, and each request a function from key to key, as `admit` is one.                         *)
(*                                                                                                           *)
(* Time is what is left: left[c] falls with each tick of the store's clock, is 0 when the lease of c is over *)
(* for its owner, and -grace when it is over for all others.                                                 *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Claims,   \* ids
  Wishes,   \* what each claim asks for: mode, limit (0: none), ttl, grace, priority, wait
  BeginMax  \* how often claims may begin, all together: bounds the check

VARIABLES
  key,      \* state, left and fence of each claim, the queue in the order of rank, the last fence
  broken    \* the promises that the last step broke: none, says every invariant below

Empty == [state |-> [c \in Claims |-> "absent"], left |-> [c \in Claims |-> 0],
          fence |-> [c \in Claims |-> 0], queue |-> <<>>, last |-> 0, begun |-> 0]

Holders(k) == {c \in Claims : k.state[c] = "held"}
Waiting(k) == {c \in Claims : k.state[c] = "waiting"}
InForce(k, c) == k.state[c] = "held" /\ k.left[c] > 0

---------------------------------------------------------------------------
(* conflict.ts: who can hold beside whom, and who waits behind whom *)

IsShared(c) == Wishes[c].mode = "shared"
Limit(c) == Wishes[c].limit
Excludes(c, d) == ~IsShared(c) \/ ~IsShared(d)
HoldsUp(ahead, behind) == Excludes(ahead, behind) \/ Limit(ahead) > 0 \/ Limit(behind) > 0

Room(k, c) ==
  LET held == Holders(k)
  IN  IF \E h \in held : Excludes(h, c) THEN "none"
      ELSE IF \E h \in held : Limit(h) # Limit(c) THEN "mismatch"
      ELSE IF Limit(c) > 0 /\ Cardinality(held) >= Limit(c) THEN "none" ELSE "room"

---------------------------------------------------------------------------
(* promotion.ts: one walk along the queue grants what conflicts with no holder and with no waiter ahead *)

Without(queue, c) == SelectSeq(queue, LAMBDA d : d # c)
End(k, c) == [k EXCEPT !.state[c] = "absent", !.left[c] = 0, !.fence[c] = 0, !.queue = Without(@, c)]
Grant(k, c) == [k EXCEPT !.state[c] = "held", !.queue = Without(@, c), !.last = @ + 1, !.fence[c] = k.last + 1]

RECURSIVE Walk(_, _, _)
Walk(k, todo, blocked) ==
  IF todo = <<>> THEN k
  ELSE LET c == Head(todo)
           room == IF \E b \in blocked : HoldsUp(b, c) THEN "none" ELSE Room(k, c)
       IN  CASE room = "room" -> Walk(Grant(k, c), Tail(todo), blocked)
             [] room = "mismatch" -> Walk(End(k, c), Tail(todo), blocked)
             [] room = "none" /\ Wishes[c].wait -> Walk(k, Tail(todo), blocked \cup {c})
             [] room = "none" /\ ~Wishes[c].wait -> Walk(End(k, c), Tail(todo), blocked)

Promote(k) == IF k.queue = <<>> THEN k ELSE Walk(k, k.queue, {})

---------------------------------------------------------------------------
(* admission.ts: the requests *)

\* Higher priority first, then arrival.
Enqueue(queue, c) ==
  LET priority == Wishes[c].priority
  IN  SelectSeq(queue, LAMBDA d : Wishes[d].priority >= priority) \o <<c>>
        \o SelectSeq(queue, LAMBDA d : Wishes[d].priority < priority)

Begin(k, c) == Promote([k EXCEPT !.state[c] = "waiting", !.left[c] = Wishes[c].ttl,
                                 !.queue = Enqueue(@, c), !.begun = @ + 1])
AskAgain(k, c) == Promote(k)
Renewed(k, c, ttl) == IF k.state[c] = "waiting" THEN Promote([k EXCEPT !.left[c] = ttl])
                      ELSE IF InForce(k, c) THEN [k EXCEPT !.left[c] = ttl] ELSE Promote(k)
Released(k, c) == Promote(End(k, c))
Withdrawn(k, c) == Promote(IF k.state[c] = "waiting" THEN End(k, c) ELSE k)

\* What the owner is told: in its grace a claim is over for it.
Status(k, c) == IF k.state[c] = "held" /\ k.left[c] <= 0 THEN "absent" ELSE k.state[c]

\* Waiters end with their lease, holders with their grace. Nobody is promoted before the next request.
IsOver(k, c) == \/ k.state[c] = "waiting" /\ k.left[c] <= 0
                \/ k.state[c] = "held" /\ k.left[c] <= -Wishes[c].grace
Passed(k, ticks) ==
  LET later == [k EXCEPT !.left = [c \in Claims |-> IF k.state[c] = "absent" THEN 0 ELSE k.left[c] - ticks]]
      staying == {c \in Claims : ~IsOver(later, c)}
  IN  [later EXCEPT !.state = [c \in Claims |-> IF c \in staying THEN @[c] ELSE "absent"],
                    !.left = [c \in Claims |-> IF c \in staying THEN @[c] ELSE 0],
                    !.fence = [c \in Claims |-> IF c \in staying THEN @[c] ELSE 0],
                    !.queue = SelectSeq(@, LAMBDA c : c \in staying)]

---------------------------------------------------------------------------
(* The promises about a step from key k to key n, by request `op` of claim c *)

Granted(k, n) == {d \in Claims : n.fence[d] # k.fence[d] /\ n.state[d] = "held"}
Ahead(d, c) == Wishes[d].priority > Wishes[c].priority

BreaksFences(k, n) == \/ n.last # k.last + Cardinality(Granted(k, n))
                      \/ \E d \in Granted(k, n) : n.fence[d] <= k.last
                      \/ \E d, e \in Granted(k, n) : d # e /\ n.fence[d] = n.fence[e]
\* A grant passes no waiter that ranks ahead and that it could keep waiting.
BreaksOrder(k, n) ==
  \E g \in Granted(k, n), w \in Waiting(n) :
     /\ HoldsUp(w, g)
     /\ \/ Ahead(w, g)
        \/ ~Ahead(g, w) /\ (k.state[g] # "waiting" \/ \E i, j \in 1..Len(k.queue) : i < j /\ k.queue[i] = w /\ k.queue[j] = g)
     /\ k.state[w] = "waiting"
BreaksHandOver(k, n, op, c) == op # "tick" /\ ~(op = "renew" /\ InForce(k, c)) /\ Promote(n) # n
\* waiting -> held -> absent; only its own claim request begins a claim; a lease that is over is not renewed.
BreaksLife(k, n, op, c) ==
  \E d \in Claims : \/ k.state[d] = "absent" /\ n.state[d] # "absent" /\ ~(op = "claim" /\ d = c)
                    \/ k.state[d] = "held" /\ n.state[d] = "waiting"
                    \/ k.state[d] = "held" /\ n.state[d] = "held" /\ n.fence[d] # k.fence[d]
                    \/ k.state[d] = "held" /\ k.left[d] <= 0 /\ n.left[d] > 0
\* Only its own release, or the end of its lease and grace, takes a held claim.
BreaksHolding(k, n, op, c) ==
  \E d \in Holders(k) : n.state[d] # "held" /\ ~(op = "release" /\ d = c)
                                            /\ ~(op = "tick" /\ k.left[d] <= 1 - Wishes[d].grace)
BreaksExpiry(k, n, op, c) ==
  \/ \E d \in Granted(k, n) : n.left[d] <= 0 \/ n.left[d] > Wishes[d].ttl
  \/ \E d \in Claims \ {c} : n.left[d] > k.left[d] /\ n.state[d] # "absent"

Broken(k, n, op, c) ==
  (IF BreaksFences(k, n) THEN {"FencesGrow"} ELSE {})
  \cup (IF BreaksOrder(k, n) THEN {"NobodyBarges"} ELSE {})
  \cup (IF BreaksHandOver(k, n, op, c) THEN {"HandedOver"} ELSE {})
  \cup (IF BreaksLife(k, n, op, c) THEN {"WaitingHeldAbsent"} ELSE {})
  \cup (IF BreaksHolding(k, n, op, c) THEN {"NothingTakesAHeldClaim"} ELSE {})
  \cup (IF BreaksExpiry(k, n, op, c) THEN {"StoreTime"} ELSE {})

Becomes(n, op, c) == key' = n /\ broken' = Broken(key, n, op, c)

---------------------------------------------------------------------------
(* The requests as steps. A late copy of a claim that has ended may begin it anew, or is refused. *)

Claim(c) == \/ key.state[c] # "absent" /\ Becomes(AskAgain(key, c), "claim", c)
            \/ key.state[c] = "absent" /\ key.begun < BeginMax /\ Becomes(Begin(key, c), "claim", c)
            \/ key.state[c] = "absent" /\ Becomes(Promote(key), "claim", c)
Renew(c) == Becomes(Renewed(key, c, Wishes[c].ttl), "renew", c)
Release(c) == Becomes(Released(key, c), "release", c)
Withdraw(c) == Becomes(Withdrawn(key, c), "withdraw", c)
Tick == \E c \in Claims : key.state[c] # "absent" /\ Becomes(Passed(key, 1), "tick", c)

Init == key = Empty /\ broken = {}
Next == Tick \/ \E c \in Claims : Claim(c) \/ Renew(c) \/ Release(c) \/ Withdraw(c)

---------------------------------------------------------------------------
(* The promises of docs/guarantees.md *)

Exclusion ==
  \A c, d \in Holders(key) : c = d \/ (~Excludes(c, d) /\ Limit(c) = Limit(d)
                                        /\ (Limit(c) = 0 \/ Cardinality(Holders(key)) <= Limit(c)))
FencesGrow == "FencesGrow" \notin broken /\ \A c, d \in Holders(key) : c = d \/ key.fence[c] # key.fence[d]
NobodyBarges == "NobodyBarges" \notin broken
HandedOver == "HandedOver" \notin broken
WaitingHeldAbsent == "WaitingHeldAbsent" \notin broken
NothingTakesAHeldClaim == "NothingTakesAHeldClaim" \notin broken
StoreTime == "StoreTime" \notin broken
QueueIsWaiting == {key.queue[i] : i \in 1..Len(key.queue)} = Waiting(key) /\ Len(key.queue) = Cardinality(Waiting(key))
RepeatableCalls ==
  \A c \in Claims :
    /\ LET n == Begin(key, c) IN key.state[c] # "absent" \/ n.state[c] = "absent" \/ AskAgain(n, c) = n
    /\ LET n == Renewed(key, c, Wishes[c].ttl) IN Renewed(n, c, Wishes[c].ttl) = n
    /\ LET n == Released(key, c) IN Released(n, c) = n
    /\ LET n == Withdrawn(key, c) IN Withdrawn(n, c) = n
=============================================================================
