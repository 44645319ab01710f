"""A knowledge base or, in its place, a vector database of the caller's own: what two arguments mean."""

from __future__ import annotations

from typing import cast

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadInput
from qianxun.core.ports import VectorDatabase, Vectorizer


def base_or_database(
    vectorizer: Vectorizer | OpenBase, vector_db: VectorDatabase | OpenBase | None
) -> OpenBase | tuple[Vectorizer, VectorDatabase]:
    """What the two arguments of a manager or a search engine mean. Raises BadInput for what cannot be meant."""
    base = vectorizer if isinstance(vectorizer, OpenBase) else vector_db if isinstance(vector_db, OpenBase) else None
    if base is None:
        lacking = [name for name in ("encode", "encode_query") if not hasattr(vectorizer, name)]
        lacking += [name for name in ("insert", "search", "delete_by_document_id") if not hasattr(vector_db, name)]
        if lacking:
            raise BadInput(
                f"vectorizer 或 vector_db 没有 {'、'.join(lacking)}",
                hint="vectorizer 用 EmbeddingEngine；vector_db 用 await engine.base(编号)，或有这些方法的库",
            )
        return cast(Vectorizer, vectorizer), cast(VectorDatabase, vector_db)
    if base is vectorizer and vector_db is not None:
        raise BadInput("知识库之后的值不明白", hint="权重请写名字：semantic_weight=0.7, keyword_weight=0.3")
    name = getattr(vectorizer, "name", base.model_name)
    if base is vector_db and name != base.model_name:
        raise BadInput(
            f"知识库的向量是模型 {base.model_name or '（没有）'} 算的，而不是 {name}",
            hint="换成知识库的模型，或用 qianxun rebuild --model 换掉知识库的",
        )
    return base
