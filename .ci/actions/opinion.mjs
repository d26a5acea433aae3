// What GitHub's own packages say to conditions and workflow files: JSON on stdin, JSON on stdout.
import { register } from "node:module";
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";

// The parser imports its schema as bundlers do; Node.js wants to be told that it is JSON.
const hook = `export const load = (url, context, next) =>
  next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
const { NoOperationTraceWriter, parseWorkflow } = await import("@actions/workflow-parser");

const STATUS = { always: true, success: true, failure: false, cancelled: false };
const functions = Object.entries(STATUS).map(([name, answer]) => ({
  name, description: "", minArgs: 0, maxArgs: 0, call: () => new data.BooleanData(answer),
}));
const byName = new Map(functions.map((each) => [each.name, each]));

/** Whether a condition holds in these contexts; null for one that is refused. */
function holds({ text, contexts }) {
  try {
    const tree = new Parser(new Lexer(text).lex().tokens, Object.keys(contexts), functions).parse();
    const value = new Evaluator(tree, JSON.parse(JSON.stringify(contexts), data.reviver), byName).evaluate();
    switch (value.kind) {
      case data.Kind.Null: return false;
      case data.Kind.Boolean: return value.value;
      case data.Kind.Number: return value.value !== 0 && !Number.isNaN(value.value);
      case data.Kind.String: return value.value !== "";
      default: return true;
    }
  } catch {
    return null;
  }
}

/** The errors of a workflow file. */
function errors({ name, content }) {
  const { context } = parseWorkflow({ name, content }, new NoOperationTraceWriter());
  return context.errors.getErrors().map((each) => each.message);
}

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { conditions, workflows } = JSON.parse(Buffer.concat(chunks).toString());
process.stdout.write(JSON.stringify({ conditions: conditions.map(holds), workflows: workflows.map(errors) }));
