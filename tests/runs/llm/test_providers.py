"""What goes over the wire to a provider and what comes back, over real HTTP."""

import json
from decimal import Decimal

import pytest

from runs.errors import ModelContractViolated, ModelError, ModelRefused
from runs.harness.ports import AssistantMessage, Role, ToolCall, ToolMessage, UserMessage
from runs.harness.structured import parse_reply
from runs.harness.wire import SCHEMA_NAMES, ExecutorEvidence, RouterIntent
from tests.runs.llm.conftest import OpenModel
from tests.runs.llm.requests import LOOKUP, QUERY_LOGS, ask, ask_executor
from tests.servers.openai_compatible import Answer, Call, HttpError, OpenAICompatibleServer, Raw

DIAGNOSIS = {"intent": "DIAGNOSIS"}
NO_CLAIMS = {"answer_version": "executor_evidence_v2", "claims": []}


class TestRequest:
    @pytest.mark.parametrize("role", Role)
    async def test_native_output_sends_the_roles_schema_name_strictly(
        self, server: OpenAICompatibleServer, open_model: OpenModel, role: Role
    ) -> None:
        server.always({"any": "object"})
        await open_model().complete(ask(role))
        sent = server.requests[0].body
        schema = sent["response_format"]["json_schema"]
        assert schema["name"] == SCHEMA_NAMES[role]
        assert schema["strict"] is True
        assert schema["schema"]["required"] == list(schema["schema"]["properties"])
        assert "tools" not in sent

    async def test_tool_output_forces_a_call_of_the_tool_named_as_the_schema(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        reply = await open_model(output_mode="tool").complete(ask(Role.ROUTER))
        sent = server.requests[0].body
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["router_intent"]
        assert sent["tool_choice"] in ("required", {"type": "function", "function": {"name": "router_intent"}})
        assert "response_format" not in sent
        assert (reply.text, reply.tool_calls) == ('{"intent": "DIAGNOSIS"}', ())

    async def test_prompted_output_sends_the_schema_in_the_system_prompt_only(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        reply = await open_model(output_mode="prompted").complete(ask(Role.ROUTER))
        sent = server.requests[0].body
        assert not {"tools", "response_format"} & sent.keys()
        assert "KNOWLEDGE_QUERY" in server.requests[0].system
        assert "router_intent" not in json.dumps(sent)
        assert parse_reply(reply.text, RouterIntent).intent == "DIAGNOSIS"

    async def test_a_conversation_keeps_its_order_ids_and_texts(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        first, second = (
            ToolCall("a", "query_logs", '{"text": "x"}'),
            ToolCall("b", "lookup_knowledge", '{"query": "y"}'),
        )
        answers = [ToolMessage("a", "query_logs", '{"n": 1}'), ToolMessage("b", "lookup_knowledge", '{"n": 2}')]
        await open_model().complete(
            ask_executor(AssistantMessage("Looking.", (first, second)), *answers, UserMessage("go on"))
        )
        system, user, assistant, *rest = server.requests[0].messages
        assert (system["role"], system["content"]) == ("system", "You are the aiops_executor.")
        assert json.loads(user["content"])["query"] == "CheckoutErrors is firing"
        assert assistant["content"] == "Looking."
        assert [(c["id"], json.loads(c["function"]["arguments"])) for c in assistant["tool_calls"]] == [
            ("a", {"text": "x"}),
            ("b", {"query": "y"}),
        ]
        assert [(m["role"], m["content"]) for m in rest] == [
            ("tool", '{"n": 1}'),
            ("tool", '{"n": 2}'),
            ("user", "go on"),
        ]
        assert [m.get("tool_call_id") for m in rest] == ["a", "b", None]

    async def test_broken_arguments_of_an_earlier_call_are_sent_back_as_valid_json(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        broken = AssistantMessage(None, (ToolCall("a", "query_logs", '{"text": '),))
        await open_model().complete(ask_executor(broken, ToolMessage("a", "query_logs", "{}")))
        sent = server.requests[0].messages[2]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(sent) == {"INVALID_JSON": '{"text": '}

    async def test_function_tools_go_out_with_their_own_schema(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        await open_model().complete(ask_executor())
        sent = {tool["function"]["name"]: tool["function"] for tool in server.requests[0].body["tools"]}
        assert sent.keys() == {"lookup_knowledge", "query_logs"}
        assert sent["query_logs"]["parameters"] == QUERY_LOGS.parameters
        assert sent["lookup_knowledge"]["description"] == LOOKUP.description

    async def test_the_api_key_and_the_models_name_go_out(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        model = open_model("qwen3-max")
        await model.complete(ask(Role.ROUTER))
        assert model.name == "openai:qwen3-max"
        assert server.requests[0].headers["authorization"] == "Bearer key-of-the-test"
        assert server.requests[0].body["model"] == "qwen3-max"

    async def test_another_provider_is_spoken_to_through_the_same_client(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        reply = await open_model("llama3", provider="ollama").complete(ask(Role.ROUTER))
        assert json.loads(reply.text or "") == DIAGNOSIS
        assert server.requests[0].schema == "router_intent"


class TestToolsWithSchemaRefused:
    async def test_it_falls_back_to_tool_output_once_and_remembers(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        server.refuse_tools_with_schema = True
        model = open_model()
        replies = [await model.complete(ask_executor()) for _ in range(2)]
        assert [question.mode for question in server.requests] == ["native", "tool", "tool"]
        assert all(reply.tool_calls for reply in replies)

    async def test_requests_without_tools_stay_native(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        server.refuse_tools_with_schema = True
        model = open_model()
        await model.complete(ask_executor())
        await model.complete(ask(Role.ROUTER))
        assert server.requests[-1].mode == "native"

    async def test_a_refusal_for_another_reason_is_not_remembered(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        server.script("executor_evidence_v2", HttpError(400), HttpError(400))
        model = open_model()
        with pytest.raises(ModelRefused):
            await model.complete(ask_executor())
        await model.complete(ask_executor())
        assert [question.mode for question in server.requests] == ["native", "tool", "native"]

    @pytest.mark.parametrize(
        "reaction", [HttpError(401), Answer(None, finish_reason="content_filter"), Answer(None), HttpError(500)]
    )
    async def test_nothing_but_a_refused_request_is_asked_again(
        self, server: OpenAICompatibleServer, open_model: OpenModel, reaction: Answer | HttpError
    ) -> None:
        server.always(reaction)
        with pytest.raises(ModelError):
            await open_model().complete(ask_executor())
        assert len(server.requests) == 1

    async def test_the_output_tools_call_becomes_the_text(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        server.refuse_tools_with_schema = True
        server.script("executor_evidence_v2", NO_CLAIMS)
        reply = await open_model().complete(ask_executor())
        assert parse_reply(reply.text, ExecutorEvidence).claims == []
        assert reply.tool_calls == ()


class TestReply:
    async def test_parallel_tool_calls_with_null_content(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        calls = (Call("query_logs", {"text": "x"}, "one"), Call("lookup_knowledge", {"query": "y"}, "two"))
        server.always(Answer(None, calls))
        reply = await open_model().complete(ask_executor())
        assert reply.text is None
        assert reply.tool_calls == (
            ToolCall("one", "query_logs", '{"text": "x"}'),
            ToolCall("two", "lookup_knowledge", '{"query": "y"}'),
        )
        assert reply.finish_reason == "tool_call"

    @pytest.mark.parametrize("arguments", ['{"text": ', "", "null", "[1]", '{"text": "x"} and more'])
    async def test_arguments_are_kept_as_the_model_wrote_them(
        self, server: OpenAICompatibleServer, open_model: OpenModel, arguments: str
    ) -> None:
        server.always(Answer(None, (Call("query_logs", arguments),)))
        reply = await open_model().complete(ask_executor())
        assert reply.tool_calls[0].arguments == arguments

    async def test_calls_that_share_an_id_get_ids_of_their_own(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        server.always(Answer(None, tuple(Call("query_logs", {"text": str(n)}, "same") for n in range(3))))
        reply = await open_model().complete(ask_executor())
        assert [call.call_id for call in reply.tool_calls] == ["same", "same_2", "same_3"]

    async def test_prose_comes_back_as_it_is(self, server: OpenAICompatibleServer, open_model: OpenModel) -> None:
        prose = 'Sure, here it is:\n```json\n{"intent": "DIAGNOSIS"}\n```\nAnything else?'
        server.always(Answer(prose))
        for mode in ("native", "tool", "prompted"):
            reply = await open_model(output_mode=mode).complete(ask(Role.ROUTER))
            assert reply.text == prose

    async def test_reasoning_is_thinking_and_never_text(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        server.script(
            None, Answer(DIAGNOSIS, thinking="First, I wonder."), Answer("<think>Hm.</think>" + json.dumps(DIAGNOSIS))
        )
        model = open_model()
        first, second = [await model.complete(ask(Role.ROUTER)) for _ in range(2)]
        assert (first.thinking, json.loads(first.text or "")) == ("First, I wonder.", DIAGNOSIS)
        assert (second.thinking, json.loads(second.text or "")) == ("Hm.", DIAGNOSIS)

    async def test_usage_is_what_the_server_states(self, server: OpenAICompatibleServer, open_model: OpenModel) -> None:
        server.script(None, Answer(DIAGNOSIS, usage=(321, 12)), Answer(DIAGNOSIS, usage=None))
        model = open_model()
        stated, missing = [await model.complete(ask(Role.ROUTER)) for _ in range(2)]
        assert stated.usage is not None
        assert (stated.usage.input_tokens, stated.usage.output_tokens, stated.usage.total) == (321, 12, 333)
        assert missing.usage is None

    async def test_a_known_model_at_an_unknown_address_has_no_price(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        reply = await open_model("gpt-4o").complete(ask(Role.ROUTER))
        assert reply.usage is not None
        assert reply.usage.cost_usd is None

    async def test_special_tokens_in_evidence_survive_the_round_trip(
        self, server: OpenAICompatibleServer, open_model: OpenModel
    ) -> None:
        line = "ERROR prompt <|im_start|>system leaked <|endoftext|>"
        server.always(lambda question: {"answer_version": question.inputs[-1]["query"]})
        reply = await open_model("qwen3-max").complete(ask(Role.AIOPS_EXECUTOR, {"query": line}))
        assert json.loads(reply.text or "")["answer_version"] == line

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            pytest.param(Answer(DIAGNOSIS, finish_reason="length"), "TRUNCATED", id="cut off"),
            pytest.param(Answer(None), "EMPTY", id="null content"),
            pytest.param(Answer("  \n"), "EMPTY", id="blank content"),
            pytest.param(Answer(None, thinking="I only think."), "EMPTY", id="thinking only"),
            pytest.param(Answer(DIAGNOSIS, choices=0), "MALFORMED", id="no choices"),
            pytest.param(Raw(b""), "MALFORMED", id="no body"),
            pytest.param(Raw(b"<html>busy</html>", {"Content-Type": "text/html"}), "MALFORMED", id="html"),
            pytest.param(Raw(b'{"choices": ['), "MALFORMED", id="half of a body"),
            pytest.param(Raw(b"[]"), "MALFORMED", id="a list"),
            pytest.param(Raw(b"null"), "MALFORMED", id="null"),
            pytest.param(Raw(b'"text"'), "MALFORMED", id="a string"),
            pytest.param(
                Raw(b'{"error": {"message": "busy", "code": 503}}'), "MALFORMED", id="an error with status 200"
            ),
            pytest.param(Raw(b'{"choices": null}'), "MALFORMED", id="null choices"),
            pytest.param(Raw(b'{"choices": [null]}'), "MALFORMED", id="a null choice"),
            pytest.param(Raw(b'{"choices": [{"message": null}]}'), "MALFORMED", id="a null message"),
            pytest.param(Raw(b'{"choices": [{"message": "hi"}]}'), "MALFORMED", id="a text for a message"),
            pytest.param(
                Raw(b'{"choices": [{"message": {"tool_calls": [{"id": 1}]}}]}'), "MALFORMED", id="half a call"
            ),
            pytest.param(Raw(b"[" * 100_000), "MALFORMED", id="nested too deep"),
            pytest.param(Raw(b"\xff\xfe{}"), "MALFORMED", id="not utf-8"),
            pytest.param(Raw(b"x", {"Content-Encoding": "gzip"}), "MALFORMED", id="compressed unasked"),
        ],
    )
    async def test_no_usable_answer_violates_the_contract(
        self, server: OpenAICompatibleServer, open_model: OpenModel, answer: Answer | Raw, code: str
    ) -> None:
        server.always(answer)
        with pytest.raises(ModelContractViolated) as caught:
            await open_model().complete(ask(Role.ROUTER))
        assert caught.value.error_code == code
        assert caught.value.transient is False

    @pytest.mark.parametrize(
        "answer", [Answer(None, finish_reason="content_filter"), Answer(None, refusal="I cannot help with that.")]
    )
    async def test_a_filtered_answer_is_a_refusal(
        self, server: OpenAICompatibleServer, open_model: OpenModel, answer: Answer
    ) -> None:
        server.always(answer)
        with pytest.raises(ModelRefused) as caught:
            await open_model().complete(ask(Role.ROUTER))
        assert caught.value.error_code == "CONTENT_FILTERED"
        assert "cannot help" not in caught.value.safe_message


async def test_the_list_price_of_a_known_model_at_its_own_address() -> None:
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.usage import RequestUsage

    from runs.llm.exchange import to_reply

    response = ModelResponse(
        parts=[TextPart("{}")],
        usage=RequestUsage(input_tokens=1_000_000, output_tokens=0),
        model_name="gpt-4o",
        provider_name="openai",
        provider_url="https://api.openai.com/v1",
    )
    usage = to_reply(response, "router_intent").usage
    assert usage is not None
    assert usage.cost_usd == Decimal("2.5")


async def test_tokens_of_an_answer_that_was_cut_off_are_known(
    server: OpenAICompatibleServer, open_model: OpenModel
) -> None:
    server.always(Answer(DIAGNOSIS, finish_reason="length"))
    with pytest.raises(ModelContractViolated) as raised:
        await open_model("qwen3-max").complete(ask(Role.ROUTER, {"query": "why?"}))
    assert raised.value.usage is not None
    assert raised.value.usage.input_tokens > 0
