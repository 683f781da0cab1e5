------------------------------- MODULE Trace -------------------------------
(* Whether a store did what Rule.tla allows. A recorded trace is one step after another: a request with its  *)
(* answer, or time that passed. `at` gets to the end of the trace, or stands still at the step that the rule *)
(* refuses: the checker reports that as a deadlock.                                                          *)
EXTENDS Rule

CONSTANTS
  Trace   \* steps: op, claim, ticks (that pass, or are the renewal's ttl), state, left and fence as answered

VARIABLES
  at,       \* how many steps of the trace have been followed
  grants    \* pairs of fences: the rule's, and the store's for the same grant

\* A store counts fences from where it likes: they must be in the same order as the rule's.
SameOrder(mine, theirs) ==
  \A pair \in grants : /\ (pair[1] < mine) = (pair[2] < theirs)
                       /\ (pair[1] = mine) = (pair[2] = theirs)

Answers(step, n) ==
  /\ Status(n, step.claim) = step.state
  /\ step.state # "absent" => n.left[step.claim] = step.left
  /\ step.state = "held" => SameOrder(n.fence[step.claim], step.fence)
  /\ key' = [n EXCEPT !.begun = 0]
  /\ grants' = IF step.state = "held" THEN grants \cup {<<n.fence[step.claim], step.fence>>} ELSE grants

Follow(step) ==
  LET c == step.claim
  IN  \/ step.op = "tick" /\ key' = Passed(key, step.ticks) /\ UNCHANGED grants
      \/ step.op = "claim" /\ key.state[c] # "absent" /\ Answers(step, AskAgain(key, c))
      \/ step.op = "claim" /\ key.state[c] = "absent" /\ step.state # "absent" /\ Answers(step, Begin(key, c))
      \* Refused, or known to have ended: in both cases the key is as if this request had never come.
      \/ /\ step.op = "claim" /\ key.state[c] = "absent" /\ step.state = "absent"
         /\ Begin(key, c).state[c] = "absent" \/ \E i \in 1..at : Trace[i].op = "claim" /\ Trace[i].claim = c
         /\ Answers(step, Promote(key))
      \/ step.op = "renew" /\ Answers(step, Renewed(key, c, step.ticks))
      \/ step.op = "release" /\ Answers(step, Released(key, c))
      \/ step.op = "withdraw" /\ Answers(step, Withdrawn(key, c))

TraceInit == key = Empty /\ broken = {} /\ at = 0 /\ grants = {}
TraceNext == \/ at < Len(Trace) /\ Follow(Trace[at + 1]) /\ at' = at + 1 /\ UNCHANGED broken
             \/ at = Len(Trace) /\ UNCHANGED <<key, broken, at, grants>>
=============================================================================
